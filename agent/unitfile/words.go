package unitfile

import "strings"

// Quoting is how a list of words is written (systemd.syntax(7), "Quoting").
type Quoting int

const (
	// Quoted lists have words in quotes, and a backslash takes the next
	// character literally.
	Quoted Quoting = iota
	// Escaped lists have the escapes of C, too.
	Escaped
	// Literal lists have words in quotes, and a backslash is a character like
	// others: it is in the names of units.
	Literal
)

// NamesIn returns the names of units in a value of [Unit]. As in systemd, a word whose
// quote is not closed is none.
func NamesIn(value string) []string {
	names, ok := Words(value, Literal)
	if !ok {
		return names[:len(names)-1]
	}
	return names
}

// Words splits a value at white space, as systemd does; quotes may begin within
// a word. ok is false if a quote is not closed, a backslash is at the end, or an
// escape stands for NUL.
func Words(value string, how Quoting) (all []string, ok bool) {
	var word strings.Builder
	inWord := false
	afterBackslash := false
	quote := rune(0)
	for _, r := range value {
		switch {
		case afterBackslash && how == Escaped:
			word.WriteString(unescape(r))
			afterBackslash = false
		case afterBackslash:
			word.WriteRune(r)
			afterBackslash = false
		case r == '\\' && how != Literal:
			afterBackslash = true
			inWord = true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '"' || r == '\'':
			quote = r
			inWord = true
		case strings.ContainsRune(space, r):
			if inWord {
				all = append(all, word.String())
			}
			word.Reset()
			inWord = false
		default:
			word.WriteRune(r)
			inWord = true
		}
	}

	if inWord {
		all = append(all, word.String())
	}
	isNUL := how == Escaped && (strings.Contains(value, `\x00`) || strings.Contains(value, `\000`))
	return all, quote == 0 && !afterBackslash && !isNUL
}

// unescape returns what a backslash and r stand for. It keeps codes of
// characters, on which no check depends, and what systemd does not know.
func unescape(r rune) string {
	switch r {
	case 's':
		return " "
	case 'a', 'b', 'f', 'n', 'r', 't', 'v':
		return "\n"
	case '\\', '"', '\'', ';':
		return string(r)
	case 'x', 'u', 'U', '0', '1', '2', '3':
		return ""
	}
	return `\` + string(r)
}
