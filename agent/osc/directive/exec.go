package directive

import (
	"path"
	"strings"
	"unicode"

	"github.com/loam-os/loam/agent/unitfile"
)

// execFault returns what is wrong with a line of ExecStart= and the like, which
// makes systemd refuse the whole unit (systemd.service(5), "COMMAND LINES").
func execFault(value string) string {
	words, ok := unitfile.Words(value, unitfile.Escaped)
	if !ok {
		return "has a quote that is not closed, or a backslash at its end"
	}

	for len(words) > 0 {
		end := len(words)
		for i, word := range words {
			if word == ";" && i > 0 {
				end = i
				break
			}
		}

		if fault := commandFault(words[:end]); fault != "" {
			return fault
		}
		words = words[min(end+1, len(words)):]
	}
	return ""
}

func commandFault(words []string) string {
	program, named := cutPrefixes(words[0])
	switch {
	case program == "":
		return "names no program"
	case HasSpecifier(program):
		return ""
	case named && len(words) == 1:
		return "has @ and no name for the process"
	case strings.HasSuffix(program, "/"):
		return "names a directory"
	case strings.ContainsFunc(program, unicode.IsControl) || strings.Contains(program, `\`):
		return "has a program with a control character or a backslash"
	case (strings.Contains(program, "/") && !path.IsAbs(program)) || program == "." || program == "..":
		return "has a program that is neither a name nor an absolute path"
	}
	return ""
}

// cutPrefixes removes the special characters before a program; named is set for
// @, which is followed by the name of the process.
func cutPrefixes(word string) (program string, named bool) {
	seen := ""
	for word != "" {
		c := word[:1]
		privileges := c == "+" || c == "!"
		switch {
		case !strings.Contains("-@:+!", c), strings.Contains(seen, c) && c != "!",
			privileges && strings.Contains(seen, "+"), c == "+" && strings.Contains(seen, "!"),
			c == "!" && strings.Count(seen, "!") == 2:
			return word, strings.Contains(seen, "@")
		}
		seen += c
		word = word[1:]
	}
	return "", strings.Contains(seen, "@")
}

// HasSpecifier reports whether a value has a specifier, which stands for text
// that is known only on the node (systemd.unit(5)).
func HasSpecifier(value string) bool {
	for i := 0; i+1 < len(value); i++ {
		if value[i] != '%' {
			continue
		}
		i++
		c := value[i]
		if (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') {
			return true
		}
	}
	return false
}
