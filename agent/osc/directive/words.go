package directive

import "strings"

// quoting is how a list of words is written (systemd.syntax(7), "Quoting").
type quoting int

const (
	// quoted lists have words in quotes, and a backslash takes the next
	// character literally.
	quoted quoting = iota
	// escaped lists have the escapes of C, too.
	escaped
)

// words splits a value at white space, as systemd does; quotes may begin within
// a word. ok is false if a quote is not closed, a backslash is at the end, or an
// escape stands for NUL.
func words(value string, how quoting) (all []string, ok bool) {
	var word strings.Builder
	inWord := false
	afterBackslash := false
	quote := rune(0)
	for _, r := range value {
		switch {
		case afterBackslash && how == escaped:
			word.WriteString(unescape(r))
			afterBackslash = false
		case afterBackslash:
			word.WriteRune(r)
			afterBackslash = false
		case r == '\\':
			afterBackslash = true
			inWord = true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '"' || r == '\'':
			quote = r
			inWord = true
		case strings.ContainsRune(" \t\n\r", r):
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
	isNUL := how == escaped && (strings.Contains(value, `\x00`) || strings.Contains(value, `\000`))
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
