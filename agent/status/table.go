package status

import (
	"fmt"
	"strings"
	"time"
)

// Table is s for a console of width columns: plain ASCII, no line longer, a
// newline at the end. Width is at least 64.
func (s Status) Table(width int) string {
	t := table{width: max(width, 64)}
	t.rule()
	t.row("phase", s.phase())
	t.error(s.Error)
	t.row("image", join(s.ImageID, s.ImageVersion)+optional(", slot ", s.Slot))
	t.row("root hash", s.RootHash)
	t.row("kernel", s.Kernel)
	t.row("host name", s.Hostname)
	t.row("generation", s.Generation)
	t.change(s.Change)
	t.row("source", s.Source)
	if s.Held != nil {
		t.row("held", s.Held.Digest+" of the source: "+s.Held.Why)
	}
	t.row("waits for", strings.Join(s.Waits, " "))
	if s.Update != nil {
		t.row("update", join(optional("OS version ", s.Update.OSVersion), optional("kubelet ", s.Update.Kubelet))+" wanted")
	}
	if s.Drift.Repaired > 0 {
		t.row("drift", fmt.Sprintf("%d paths repaired, last %s at %s", s.Drift.Repaired, s.Drift.Last, seconds(s.Drift.At)))
	}
	t.row("machine.yaml", s.Machine)
	t.row("files", fmt.Sprint(s.Files))
	t.row("uptime", seconds(s.Uptime)+" since kernel start")
	for i, u := range s.Units {
		label := ""
		if i == 0 {
			label = "units"
		}
		t.line(fmt.Sprintf("  %-13s%s", label, t.unit(u)))
	}
	for _, w := range s.Warnings {
		t.row("warning", w)
	}
	for _, tty := range s.DebugShells {
		t.row("! shell", "debug shell open on "+tty)
	}
	t.rule()
	return t.out.String()
}

func (s Status) phase() string {
	if s.Phase == Applied && s.AppliedAt > 0 {
		return "applied after " + seconds(s.AppliedAt)
	}
	return string(s.Phase)
}

// AppliedLine is what the console says once, when a generation is applied.
func (s Status) AppliedLine() string {
	return fmt.Sprintf("loam: applied generation %s after %s", s.Generation, seconds(s.AppliedAt))
}

type table struct {
	width int
	out   strings.Builder
}

func (t *table) rule() { t.line("--- loam " + strings.Repeat("-", t.width-9)) }

// row writes a label and its value, which goes on in lines below where it is
// too long. A row without a value is left out.
func (t *table) row(label, value string) {
	const indent = 15
	value = ascii(value)
	for value != "" {
		end := min(len(value), t.width-indent)
		if end < len(value) {
			if space := strings.LastIndexByte(value[:end+1], ' '); space > 0 {
				end = space
			}
		}
		t.line(fmt.Sprintf("  %-13s%s", label, value[:end]))
		label, value = "", strings.TrimLeft(value[end:], " ")
	}
}

func (t *table) error(e *Error) {
	if e == nil {
		return
	}
	t.row("error", optional("", e.Document)+lineNumber(e.Line)+optional(" ", e.Path)+separator(e)+e.Problem)
	t.row("hint", e.Hint)
}

func (t *table) change(c *Change) {
	switch {
	case c == nil:
	case !c.Until.IsZero():
		t.row("on trial", fmt.Sprintf("until %s, then back to %s; `loam confirm` keeps it", c.Until.Format(time.RFC3339), c.Good))
	case c.Good != "":
		t.row("watched", fmt.Sprintf("%s; goes back to %s if it is worse", c.Waits, c.Good))
	}
}

// unit is one unit in the columns of the value: name, state, since when.
func (t *table) unit(u Unit) string {
	mark := " "
	if !u.Settled {
		mark = "*"
	}
	state := mark + u.Active + "/" + u.Sub
	room := t.width - 15 - 24 - 10
	name := ascii(u.Name)
	if len(name) > room {
		name = name[:room-2] + ".."
	}
	return strings.TrimRight(fmt.Sprintf("%-*s%-24.24s%10s", room, name, state, since(u.Since)), " ")
}

func (t *table) line(text string) {
	if len(text) > t.width {
		text = text[:t.width]
	}
	t.out.WriteString(strings.TrimRight(text, " ") + "\n")
}

func separator(e *Error) string {
	if e.Document+e.Path == "" && e.Line == 0 {
		return ""
	}
	return ": "
}

func lineNumber(line int) string {
	if line == 0 {
		return ""
	}
	return fmt.Sprintf(":%d", line)
}

func since(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return "at " + seconds(d)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

func join(words ...string) string { return strings.TrimSpace(strings.Join(words, " ")) }

// optional is text after before, "" if there is no text.
func optional(before, text string) string {
	if text == "" {
		return ""
	}
	return before + text
}

// ascii makes of text what every console can show and none takes for a command.
func ascii(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case r < ' ' || r > '~':
			return '?'
		}
		return r
	}, text)
}
