// Package progress shows how far long work is: on a terminal a line with a bar,
// the rate and the time left, which is drawn again in place; elsewhere a plain
// line at the end of each part.
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

	// part is what is being done, since began; the line was last drawn at shown.
	part         string
	began, shown time.Time
	// open says that the line of the part has no end yet.
	open bool
}

// New returns a bar on out, which is drawn in place if that is a terminal.
func New(out io.Writer) *Bar {
	file, is := out.(*os.File)
	return &Bar{
		out:      out,
		terminal: is && term.IsTerminal(int(file.Fd())),
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

// interval is the time between two drawings.
const interval = time.Second / 5

// Update shows that done of all bytes of a part are done. A part ends when both
// are the same.
func (b *Bar) Update(part string, done, all int64) {
	now := b.now()
	if part != b.part {
		b.Close()
		b.part = part
		b.began = now
		b.shown = time.Time{}
	}

	ended := done >= all
	if !ended && (!b.terminal || now.Sub(b.shown) < interval) {
		return
	}

	b.shown = now
	line := b.line(done, all, now.Sub(b.began))
	if b.terminal { // A line that wraps could not be drawn again in place.
		line = line[:min(len(line), b.columns()-1)]
	}

	switch {
	case !b.terminal:
		fmt.Fprintln(b.out, line)
	case ended:
		fmt.Fprintf(b.out, "\r%s\x1b[K\n", line)
	default:
		fmt.Fprintf(b.out, "\r%s\x1b[K", line)
	}
	b.open = b.terminal && !ended
	if ended {
		b.part = ""
	}
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

func (b *Bar) line(done, all int64, took time.Duration) string {
	line := fmt.Sprintf("%-8s", b.part)
	if b.terminal {
		filled := int(width * done / max(all, 1))
		line += " [" + strings.Repeat("#", filled) + strings.Repeat(" ", width-filled) + "]"
	}

	line += fmt.Sprintf(" %3d %%  %s of %s", 100*done/max(all, 1), mebibytes(done), mebibytes(all))
	if took <= 0 || done <= 0 {
		return line
	}

	rate := float64(done) / took.Seconds()
	line += fmt.Sprintf("  %.0f MB/s", rate/1e6)
	if left := all - done; left > 0 {
		rest := time.Duration(float64(left) / rate * float64(time.Second))
		line += "  " + rest.Round(time.Second).String() + " left"
	}
	return line
}

func mebibytes(n int64) string {
	if n%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}
