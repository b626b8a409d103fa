package show

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// isText reports whether content can be printed on a terminal as it is: UTF-8
// without control characters, which a terminal takes for commands.
func isText(content []byte) bool {
	lines := strings.ReplaceAll(string(content), "\r\n", "\n")
	return utf8.Valid(content) && !strings.ContainsFunc(lines, func(r rune) bool {
		return r != '\n' && r != '\t' && !unicode.IsPrint(r) && !unicode.IsSpace(r) || r == '\r' ||
			r == '\v' || r == '\f'
	})
}

// Size formats a number of bytes with three digits.
func Size(bytes int64) string {
	if bytes < 1000 {
		return fmt.Sprintf("%d B", bytes)
	}

	value := float64(bytes)
	unit := 0
	for ; value >= 999.5; unit++ {
		value /= 1000
	}

	digits := 0
	if value < 9.95 {
		digits = 2
	} else if value < 99.95 {
		digits = 1
	}

	return fmt.Sprintf("%.*f %cB", digits, value, " kMGTPE"[unit])
}
