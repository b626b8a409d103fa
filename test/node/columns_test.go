package node

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// cell is what a line has between gaps of two spaces or more.
var cell = regexp.MustCompile(`\S+(?: \S+)*`)

// misaligned returns a cell of a text that is neither below the start of an
// earlier one nor, as numbers are, above its end, or "". Lines without two
// columns, as of prose, end a table.
func misaligned(text string) string {
	// A mark like "!" is before the first column.
	const marks = 2

	var table []span
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \n")
		if !strings.Contains(strings.TrimSpace(line), "  ") {
			table = nil
			continue
		}

		for _, at := range cell.FindAllStringIndex(line, -1) {
			c := span{utf8.RuneCountInString(line[:at[0]]), utf8.RuneCountInString(line[:at[1]])}
			if c.start > marks && slices.ContainsFunc(table, c.overlaps) &&
				!slices.ContainsFunc(table, c.isBelow) {
				return fmt.Sprintf("%q in %q", line[at[0]:at[1]], line)
			}
			table = append(table, c)
		}
	}

	return ""
}

// span is where a cell starts, and the column after its end.
type span struct{ start, end int }

func (s span) overlaps(o span) bool { return s.start < o.end && o.start < s.end }

func (s span) isBelow(o span) bool { return s.start == o.start || s.end == o.end }

func TestMisaligned(t *testing.T) {
	tests := map[string]struct {
		text string
		bad  bool
	}{
		"prose":             {text: "a line\nanother, which is longer\n"},
		"labels":            {text: "  phase   applied\n! shell   open\n  files   11\n"},
		"a label too long":  {text: "phase   applied\nfiles    11\n", bad: true},
		"a header":          {text: "a      when\n1.2.3  12:00\n"},
		"a header too far":  {text: "a        when\n1.2.3  12:00\n", bad: true},
		"numbers":           {text: "a    bytes\nb       12\n"},
		"a column more":     {text: "units  a  dead\n       b  running  12:00\n       c  dead\n"},
		"later columns":     {text: "units  a  dead     12:00\n       b  running   12:00\n", bad: true},
		"letters not ASCII": {text: "é  when\nab  12:00\n", bad: true},
		"two tables":        {text: "a   b\n\nlong   b\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := misaligned(test.text); (got != "") != test.bad {
				t.Errorf("misaligned: %q", got)
			}
		})
	}
}

func TestErasedTextIsNotLeft(t *testing.T) {
	const erase = "\x1b[K"
	for text, want := range map[string]string{
		"a\nb\n": "a\nb\n",
		"verify  [#]  1 %" + erase + "verify  [##]  2 %" + erase + erase + "24 paths\n": "24 paths\n",
		"verify  [#]  1 %" + erase + "verify  [####]  in 2 s" + erase + "\n24 paths\n":  "verify  [####]  in 2 s\n24 paths\n",
		"before\nverify  1 %" + erase + erase:                                           "before\n",
		"\x1b[31mred\x1b[0m\n":                                                          "red\n",
	} {
		if got := left(text); got != want {
			t.Errorf("left(%q) = %q, want %q", text, got, want)
		}
	}
}
