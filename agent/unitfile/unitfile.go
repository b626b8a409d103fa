// Package unitfile reads unit files as systemd does (systemd.syntax(7),
// systemd.unit(5)). It is pure, and small enough for the initramfs.
//
// [Parse] returns the settings of a unit, and [Words] splits a value that is a
// list. [Lines] is for a caller that reports where something is written.
// [Install.Links] is what enabling the unit does, and [DropInNames] says where
// its drop-ins are.
package unitfile

import (
	"iter"
	"strings"
)

// space is what systemd takes for white space.
const space = " \t\n\r"

// Line is a line of a unit file with something on it, together with the lines
// in which its value goes on.
type Line struct {
	// Number is the number of its first line, from 1.
	Number int
	Text   string
	// Section is the section that the line begins or is in, "" before the first.
	Section string
}

// Assignment returns the name and the value of an assignment.
func (l Line) Assignment() (name, value string, ok bool) {
	name, value, ok = strings.Cut(l.Text, "=")
	return strings.Trim(name, space), strings.Trim(value, space), ok
}

// IsSection reports whether the line begins a section.
func (l Line) IsSection() bool { return strings.HasPrefix(l.Text, "[") }

// lineEnds makes the ends of lines those of Linux. systemd takes each of LF, CR
// and NUL, and different ones together as one end (read_line_full in its
// src/basic/fileio.c).
var lineEnds = strings.NewReplacer(
	"\r\n\x00", "\n", "\n\r\x00", "\n", "\r\n", "\n", "\n\r", "\n", "\n\x00", "\n", "\r\x00", "\n",
	"\r", "\n", "\x00", "\n",
)

// Lines returns the lines of a unit file. A byte order mark at its beginning has
// no meaning.
func Lines(text string) iter.Seq[Line] {
	return func(yield func(Line) bool) {
		section := ""
		held := ""
		first := 0
		number := 0
		emit := func(text string) bool {
			line := Line{Number: first, Text: strings.Trim(text, space), Section: section}
			if line.Text == "" {
				return true
			}
			if line.IsSection() {
				section = strings.TrimSuffix(line.Text[1:], "]")
				line.Section = section
			}
			return yield(line)
		}

		for raw := range strings.SplitSeq(lineEnds.Replace(strings.TrimPrefix(text, "\ufeff")), "\n") {
			number++
			trimmed := strings.Trim(raw, space)
			if strings.HasPrefix(trimmed, "#") || strings.HasPrefix(trimmed, ";") {
				continue // Also between the lines of one value.
			}

			if held == "" {
				first = number
			}
			joined := held + raw
			if goesOn(joined) {
				held = joined[:len(joined)-1] + " "
				continue
			}
			held = ""
			if !emit(joined) {
				return
			}
		}
		emit(held)
	}
}

// goesOn reports whether a line ends with a backslash that is not escaped.
func goesOn(line string) bool {
	return (len(line)-len(strings.TrimRight(line, `\`)))%2 == 1
}
