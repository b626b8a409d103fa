package status

import (
	"fmt"
	"strings"
	"time"
)

// clock is the format of a time of day.
const clock = "2006-01-02 15:04:05 MST"

type table struct {
	width int
	out   strings.Builder
}

func (t *table) rule() { t.line("--- loam " + strings.Repeat("-", t.width-9)) }

// row writes a label and its value, which continues on further lines if it is
// too long. It omits a row without a value.
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
		label = ""
		value = strings.TrimLeft(value[end:], " ")
	}
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

// count returns n of a thing, in words.
func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

func join(words ...string) string { return strings.TrimSpace(strings.Join(words, " ")) }

// optional returns text after before, "" if text is empty.
func optional(before, text string) string {
	if text == "" {
		return ""
	}
	return before + text
}

// ascii replaces everything in text that a console may not be able to show or
// may take for a command.
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
