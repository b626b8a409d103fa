// Package progress shows how far long work is. On a terminal it is a line with a
// bar, the rate and the time left, which is drawn again in place. Elsewhere it is a
// plain line now and then. Work that ends at once leaves no line.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// Bar shows the progress of work with one part after another. It is for one
// goroutine.
type Bar struct {
	out      io.Writer
	terminal bool
	now      func() time.Time
	// columns returns the width of the terminal.
	columns func() int

	// part is what is being done, since began, when first bytes of it were done; the
	// line was last drawn at shown.
	part         string
	first        int64
	began, shown time.Time
	rate         rate
	// open says that the line of the part has no end yet.
	open bool
}

// New returns a bar on out, which is drawn in place if that is a terminal that can.
func New(out io.Writer) *Bar {
	file, is := out.(*os.File)
	return &Bar{
		out:      out,
		terminal: is && term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb",
		now:      time.Now,
		columns:  func() int { return columns(file) },
	}
}

// columns returns the width of a terminal, 80 if it does not say.
func columns(terminal *os.File) int {
	if w, _, err := term.GetSize(int(terminal.Fd())); err == nil && w > 0 {
		return w
	}
	return 80
}

// patience is how long a part may take without a line that stays.
const patience = time.Second

// interval returns the time between two lines.
func (b *Bar) interval() time.Duration {
	if b.terminal {
		return time.Second / 5
	}
	return 10 * time.Second
}

// Update shows that done of all bytes of a part are done. A part ends when both
// are the same.
func (b *Bar) Update(part string, done, all int64) {
	now := b.now()
	done = min(done, all)
	if part != b.part {
		b.Close()
		b.part = part
		b.first = done
		b.began = now
		b.shown = time.Time{}
		b.rate = begin(now, done)
	}
	b.rate.count(now, done)

	ended := done == all
	took := now.Sub(b.began)
	stays := took >= patience
	due := ended || now.Sub(b.shown) >= b.interval()
	if due && (b.terminal || stays) {
		b.shown = now
		b.print(b.line(done, all, took), ended, stays)
	}
	if ended {
		b.part = ""
	}
}

// print shows the line of a part. The last line of a part is erased from a terminal
// unless it stays.
func (b *Bar) print(line string, ended, stays bool) {
	if !b.terminal {
		fmt.Fprintln(b.out, line)
		return
	}

	b.open = !ended
	switch {
	case !ended:
		fmt.Fprint(b.out, "\r", line, eraseRest)
	case stays:
		fmt.Fprint(b.out, "\r", line, eraseRest, "\n")
	default:
		fmt.Fprint(b.out, "\r", eraseRest)
	}
}

// eraseRest erases the rest of the line of a terminal (ECMA-48, EL).
const eraseRest = "\x1b[K"

// Hide takes the line from a terminal, so that something else can be printed. The
// next update draws it again. Elsewhere lines stay, and Hide does nothing.
func (b *Bar) Hide() {
	if !b.terminal {
		return
	}
	if b.open {
		fmt.Fprint(b.out, "\r", eraseRest)
	}
	b.open = false
	b.shown = time.Time{}
}

// Close ends the line of a part that did not come to its end, so that what is
// printed next begins a line of its own.
func (b *Bar) Close() {
	if b.open {
		fmt.Fprintln(b.out)
	}
	b.open = false
	b.part = ""
}

// width is how many characters the bar has on a terminal.
const width = 20

// line returns the line of a part. Where a terminal has no room for all of it, the
// bar is left out, and then what is at its end. The last line of a part has the
// rate and the time of all of it.
func (b *Bar) line(done, all int64, took time.Duration) string {
	percent := fmt.Sprintf(" %3d %%", 100*done/max(all, 1))
	amount := "  " + formatAmount(done, all)
	end := ""
	switch perSecond, measured := b.rate.perSecond, took > 0 && done > b.first; {
	case measured && done == all:
		amount += "  " + formatRate(float64(done-b.first)/took.Seconds())
		end = "  in " + formatTime(took)
	case measured && perSecond > 0:
		amount += "  " + formatRate(perSecond)
		end = "  " + formatTime(b.rate.left(all-done)) + " left"
	}

	name := fmt.Sprintf("%-8s", b.part)
	if !b.terminal {
		return name + percent + amount + end
	}

	room := b.columns() - 1 // A line that wraps cannot be drawn again in place.
	filled := int(width * done / max(all, 1))
	bar := " [" + strings.Repeat("#", filled) + strings.Repeat(" ", width-filled) + "]"
	for _, line := range []string{
		name + bar + percent + amount + end,
		name + percent + amount + end,
		name + percent + end,
		name + percent,
		strings.TrimSpace(percent),
	} {
		if len(line) <= room {
			return line
		}
	}
	return ""
}

// formatAmount returns how much is done, in the unit of the total and with its
// width, so that what follows on a line stays in its column.
func formatAmount(done, all int64) string {
	unit, size := "KiB", int64(1<<10)
	switch {
	case all >= 10<<30:
		unit, size = "GiB", 1<<30
	case all >= 1<<20:
		unit, size = "MiB", 1<<20
	}

	decimals := 1
	if all/size >= 100 {
		decimals = 0
	}
	total := fmt.Sprintf("%.*f", decimals, float64(all)/float64(size))
	return fmt.Sprintf("%*.*f of %s %s",
		len(total), decimals, float64(done)/float64(size), total, unit)
}

// formatRate returns a rate in bytes a second as text.
func formatRate(rate float64) string {
	switch mebi := rate / (1 << 20); {
	case mebi < 1:
		return fmt.Sprintf("%4.0f KiB/s", rate/(1<<10))
	case mebi < 100:
		return fmt.Sprintf("%4.1f MiB/s", mebi)
	default:
		return fmt.Sprintf("%4.0f MiB/s", mebi)
	}
}

// formatTime returns a time in two units at most.
func formatTime(d time.Duration) string {
	s := int64((d + time.Second/2) / time.Second)
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	default:
		return fmt.Sprintf("%dh%02dm", s/3600, s/60%60)
	}
}
