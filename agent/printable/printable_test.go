package printable

import (
	"strings"
	"testing"
)

func TestLine(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"plain", "no such file: /etc/b", "no such file: /etc/b"},
		{"letters of others", "größe 大", "größe 大"},
		{"lines", "a\n\tb\r\n", "a b"},
		{"an escape", "a\x1b[2Jb", "a [2Jb"},
		{"a C1 code as UTF-8", "a\u009b2Jb", "a 2Jb"},
		{"a C1 code as a byte", "a\x9b2Jb", "a 2Jb"},
		{"delete", "a\x7fb", "a b"},
		{"text from right to left", "a\u202eb", "a b"},
		{"long", strings.Repeat("a", 60), strings.Repeat("a", 50) + " ..."},
		{"very long", strings.Repeat("a", 1<<20), strings.Repeat("a", 50) + " ..."},
		{"cut in a letter", strings.Repeat("a", 49) + "ö", strings.Repeat("a", 49) + " ..."},
	} {
		if got := Line(test.text, 50); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}
