// Package printable makes text of others fit for a terminal, a log or an Event:
// lines of a journal, of a panic, or what a server answers.
package printable

import (
	"strings"
	"unicode"
)

// Most is the longest text that is kept of others, in bytes.
const Most = 4 << 10

// Line returns a text on one line of at most that many bytes, without what a
// terminal takes for a command: control characters, C1 among them, and characters
// that change the direction of others. Bytes that are not UTF-8 are left out.
func Line(text string, most int) string {
	cut := len(text) > 4*most
	if cut {
		text = text[:4*most] // Spaces may go.
	}
	breaks := func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r) || r == unicode.ReplacementChar
	}
	text = strings.Join(strings.FieldsFunc(text, breaks), " ")
	if cut || len(text) > most {
		text = strings.ToValidUTF8(text[:min(most, len(text))], "") + " ..."
	}
	return text
}
