package printable

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
		{"a password", "GET http://ada:s3cret@host", "GET http://ada:xxxxx@host"},
		{
			"a password that would be cut",
			strings.Repeat("a", 36) + " http://ada:s3cret@host",
			strings.Repeat("a", 36) + " http://ada:xx ...",
		},
	} {
		if got := Line(test.text, 50); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

func TestMessageCutsNames(t *testing.T) {
	name := strings.Repeat("a", 1<<20)
	fits := strings.Repeat("b", MaxName)
	for _, test := range []struct{ name, text, want string }{
		{
			"a name of any length",
			"write /etc/" + name + ".conf:\x1b[2J no room",
			"write /etc/" + strings.Repeat("a", MaxName-64-3-5) + "..." +
				strings.Repeat("a", 64-10) + ".conf: [2J no room",
		},
		{"the longest name", fits + " is bad", fits + " is bad"},
		{"cut in a letter", strings.Repeat("ö", 200), strings.Repeat("ö", 94) + "..." +
			strings.Repeat("ö", 32)},
		{"long", strings.Repeat("a ", 600), strings.Repeat("a ", 500) + " ..."},
		{"the password of a URL that is cut", "http://a:" + fits + "@host", "http://a:xxxxx@host"},
	} {
		if got := Message(test.text, 1000); got != test.want {
			t.Errorf("%s: %.400q, want %.400q", test.name, got, test.want)
		}
	}
}

func TestIsText(t *testing.T) {
	tests := []struct {
		name, content string
		want          bool
	}{
		{"nothing", "", true},
		{"lines with tabs", "a\tb\n\nc", true},
		{"Windows line ends", "a\r\nb\r\n", true},
		{"non-ASCII text", "Grüße, 世界\u00a0\u3000\n", true},
		{"a carriage return, which hides the text before it", "rm -rf /\rls       ", false},
		{"an escape sequence", "\x1b[2J", false},
		{"a C1 code", "a\u009b2J", false},
		{"a C1 code that is a space, too", "a\u0085b", false},
		{"a form feed", "a\fb", false},
		{"a zero", "a\x00b", false},
		{"invalid UTF-8", "a\xffb", false},
		{"an invisible change of direction", "a\u202eb", false},
		{"a separator of lines", "a\u2028b", false},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := IsText([]byte(tt.content)); got != tt.want {
				t.Errorf("IsText(%q) is %v", tt.content, got)
			}
		})
	}
}

type inner struct {
	Names  []string
	hidden string
}

type outer struct {
	Text   string
	At     time.Time
	Inner  *inner
	Absent *inner
	By     map[string][]inner
	Bytes  []byte
	None   []string
	Empty  []string
}

func TestCopyHasOnlyFitTexts(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.Local)
	bad := outer{
		Text:  "a\x1b[2J\u009bb\x9bc\u0085d\r\ne\u202ef  g\u00a0h",
		At:    at,
		Inner: &inner{Names: []string{"fits", strings.Repeat("n", 1<<20)}, hidden: "h"},
		By:    map[string][]inner{"k\x07": {{Names: []string{"v\x07"}}}},
		Bytes: []byte("\x1b"),
		Empty: []string{},
	}
	want := outer{
		Text: "a [2J b c d \ne f  g\u00a0h",
		At:   at,
		Inner: &inner{
			Names:  []string{"fits", strings.Repeat("n", 381) + "..." + strings.Repeat("n", 128)},
			hidden: "h",
		},
		By:    map[string][]inner{"k ": {{Names: []string{"v "}}}},
		Bytes: []byte("\x1b"),
		Empty: []string{},
	}
	before := *bad.Inner

	got := Copy(bad)
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(inner{})); diff != "" {
		t.Errorf("copy (-want +got):\n%.2000s", diff)
	}
	if again := Copy(got); cmp.Diff(got, again, cmp.AllowUnexported(inner{})) != "" {
		t.Error("a copy of a copy is another one")
	}
	if diff := cmp.Diff(before, *bad.Inner, cmp.AllowUnexported(inner{})); diff != "" {
		t.Error("the value has changed")
	}
}

func TestATextOfACopyIsBounded(t *testing.T) {
	text := strings.Repeat("aa ", 1<<20)
	if got := Copy(text); len(got) > maxText+10 || !strings.HasSuffix(got, " ...") {
		t.Errorf("%d bytes", len(got))
	}
}

func TestACopyHasNoPasswords(t *testing.T) {
	got := Copy(outer{
		Text:  "fetch a.pack from http://ada:s3cret@host/updates: no answer",
		Inner: &inner{Names: []string{"http://ada:" + strings.Repeat("s3cret", 1000) + "@host"}},
	})
	want := outer{
		Text:  "fetch a.pack from http://ada:xxxxx@host/updates: no answer",
		Inner: &inner{Names: []string{"http://ada:xxxxx@host"}},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(inner{})); diff != "" {
		t.Errorf("copy (-want +got):\n%s", diff)
	}
}
