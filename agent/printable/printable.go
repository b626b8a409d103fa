// Package printable makes text of others fit for a terminal, a log or an Event:
// lines of a journal, of a panic, or what a server answers. As the status, consoles
// and the cluster have their texts from here, no text has the password of a URL:
// [Line], [Message] and [Copy] mask it.
package printable

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/loam-os/loam/hint/redact"
)

// Most is the longest text that is kept of others, in bytes.
const Most = 4 << 10

// Line returns a text on one line of at most that many bytes, without what a
// terminal takes for a command: control characters, C1 among them, and characters
// that change the direction of others. Bytes that are not UTF-8 are left out.
func Line(text string, most int) string {
	text = redact.URLs(text) // Before it is cut, maybe in a password.
	cut := len(text) > 4*most
	if cut {
		text = text[:4*most] // Spaces may go.
	}
	breaks := func(r rune) bool { return unicode.IsSpace(r) || !isPrintable(r) }
	text = strings.Join(strings.FieldsFunc(text, breaks), " ")
	if cut || len(text) > most {
		text = strings.ToValidUTF8(text[:min(most, len(text))], "") + " ..."
	}
	return text
}

// isPrintable reports whether a terminal shows r and nothing else: it is no code
// for it, and a byte that is not UTF-8 is none.
func isPrintable(r rune) bool { return unicode.IsPrint(r) && r != unicode.ReplacementChar }

// Message returns a text as [Line] does, with names in it cut to [MaxName], so that
// a name of any length does not take the place of what the message says of it.
func Message(text string, most int) string {
	return Line(cutNames(redact.URLs(text), MaxName), most)
}

// MaxName is the longest name in a [Message], in bytes: as long as the longest name
// of a file.
const MaxName = 256

// name is what may be a name.
var name = regexp.MustCompile(`\S+`)

// cutNames cuts what is between two spaces to most bytes, in its middle: the
// begin and the end of a path or a digest say the most.
func cutNames(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return name.ReplaceAllStringFunc(text, func(name string) string {
		if len(name) <= most {
			return name
		}
		const mark = "..."
		end := most / 4
		begin := most - end - len(mark)
		return strings.ToValidUTF8(name[:begin], "") + mark +
			strings.ToValidUTF8(name[len(name)-end:], "")
	})
}

// IsText reports whether a terminal shows content as it is: lines of UTF-8
// without codes for the terminal. A carriage return counts as such, unless it is
// of the end of a line.
func IsText(content []byte) bool {
	if !utf8.Valid(content) {
		return false
	}
	lines := strings.ReplaceAll(string(content), "\r\n", "\n")
	return !strings.ContainsFunc(lines, func(r rune) bool {
		return r != '\n' && r != '\t' && !unicode.IsPrint(r) && !unicode.Is(unicode.Zs, r)
	})
}
