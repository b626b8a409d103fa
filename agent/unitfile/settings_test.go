package unitfile_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/unitfile"
)

// Each row has what systemd.syntax(7) says, or what `systemctl enable` does.
var parsed = []struct {
	name  string
	texts []string
	want  unitfile.Settings
}{
	{
		name: `"Whitespace immediately before or after the = is ignored."`,
		texts: []string{
			"[Unit]\n Description \t=  a b \t\n",
		},
		want: unitfile.Settings{{"Unit", "Description", "a b"}},
	},
	{
		name:  `"Empty lines and lines starting with # or ; are ignored."`,
		texts: []string{"\n[Unit]\n\n# A=1\n  ; B=2\nC=3 # x\n"},
		want:  unitfile.Settings{{"Unit", "C", "3 # x"}},
	},
	{
		name: `"Lines ending in a backslash are concatenated with the following line while reading ` +
			`and the backslash is replaced by a space character."`,
		texts: []string{"[Unit]\nA=1\\\n2 \\\n 3\nB=4\n"},
		want:  unitfile.Settings{{"Unit", "A", "1 2   3"}, {"Unit", "B", "4"}},
	},
	{
		name: `"When a comment line or lines follow a line ending with a backslash, the comment ` +
			`block is ignored."`,
		texts: []string{"[Unit]\nA=1\\\n# x \\\n; y\n2\nB=3\n"},
		want:  unitfile.Settings{{"Unit", "A", "1 2"}, {"Unit", "B", "3"}},
	},
	{
		name:  `"In particular, any backslashes should be doubled."`,
		texts: []string{"[Unit]\nA=1\\\\\nB=2\\\\\\\n3\n"},
		want:  unitfile.Settings{{"Unit", "A", `1\\`}, {"Unit", "B", `2\\ 3`}},
	},
	{
		name:  "a backslash and a blank end a line",
		texts: []string{"[Unit]\nA=1\\ \nB=2\\\t\r\nC=3\n"},
		want:  unitfile.Settings{{"Unit", "A", `1\`}, {"Unit", "B", `2\`}, {"Unit", "C", "3"}},
	},
	{
		name:  "CR and NUL end a line",
		texts: []string{"[Unit]\rA=1\r\rB=2\x00C=3\n\x00D=4 \\\n\r5\r\nE=6"},
		want: unitfile.Settings{
			{"Unit", "A", "1"}, {"Unit", "B", "2"}, {"Unit", "C", "3"}, {"Unit", "D", "4  5"},
			{"Unit", "E", "6"},
		},
	},
	{
		name:  "only white space of ASCII counts",
		texts: []string{"[Unit]\nA=1\u00a0\n\u00a0# B=2\n"},
		want:  unitfile.Settings{{"Unit", "A", "1\u00a0"}, {"Unit", "\u00a0# B", "2"}},
	},
	{
		name:  "quotes belong to the value",
		texts: []string{"[Install]\nWantedBy=\"multi-user.target\"\n"},
		want:  unitfile.Settings{{"Install", "WantedBy", `"multi-user.target"`}},
	},
	{
		name:  "each text begins outside of sections, with its own mark",
		texts: []string{"\ufeff[Unit]\nA=1 \\", "B=2\n", "\ufeff[Service]\nC=3\n"},
		want:  unitfile.Settings{{"Unit", "A", "1"}, {"", "B", "2"}, {"Service", "C", "3"}},
	},
	{
		name:  "what is no assignment",
		texts: []string{"[Unit]\nnothing\n[Serv=ice\nA=1\n=2\n"},
		want:  unitfile.Settings{{"Serv=ice", "A", "1"}, {"Serv=ice", "", "2"}},
	},
}

func TestParse(t *testing.T) {
	for _, test := range parsed {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, unitfile.Parse(test.texts...)); diff != "" {
				t.Errorf("Parse(%q) (-want +got):\n%s", test.texts, diff)
			}
		})
	}
}

func TestNamesIn(t *testing.T) {
	for value, want := range map[string][]string{
		"":                          nil,
		"a.target  b.target":        {"a.target", "b.target"},
		`"a.target" 'b.target'`:     {"a.target", "b.target"},
		`a"b c".target`:             {"ab c.target"},
		`a.target ""`:               {"a.target", ""},
		`dev-a\x2db.device c.\`:     {`dev-a\x2db.device`, `c.\`},
		`a.target "b.target c.path`: {"a.target"},
		`"`:                         {},
	} {
		if diff := cmp.Diff(want, unitfile.NamesIn(value)); diff != "" {
			t.Errorf("NamesIn(%q) (-want +got):\n%s", value, diff)
		}
	}
}

func TestAnEmptyValueResetsLists(t *testing.T) {
	s := unitfile.Parse("[Install]\nWantedBy=a.target\nWantedBy=\nWantedBy=b.target c.target\n" +
		"[Unit]\nRequires=a.service\nRequires=\nBindsTo=b.service\nRequires=c.service\n" +
		"[Service]\nEnvironmentFile=/a\nEnvironmentFile=\n")

	names := s.Names("Install", "WantedBy")
	if diff := cmp.Diff([]string{"b.target", "c.target"}, names); diff != "" {
		t.Errorf("WantedBy= (-want +got):\n%s", diff)
	}
	if last := s.Last("Service", "EnvironmentFile"); last != "" {
		t.Errorf("EnvironmentFile=%s", last)
	}

	// "Dependencies (After=, etc.) cannot be reset to an empty list" (systemd.unit(5)).
	dependencies := s.Dependencies("Requires", "BindsTo")
	want := []string{"a.service", "b.service", "c.service"}
	if diff := cmp.Diff(want, dependencies); diff != "" {
		t.Errorf("dependencies (-want +got):\n%s", diff)
	}
}

// write returns a text with the settings. The blank keeps a backslash at the end
// of a value from joining it with the next line.
func write(s unitfile.Settings) string {
	var text strings.Builder
	for _, setting := range s {
		text.WriteString("[" + setting.Section + "]\n" + setting.Name + "=" + setting.Value + " \n")
	}
	return text.String()
}

// Settings that are written out again are the same settings.
func FuzzParse(f *testing.F) {
	for _, test := range parsed {
		f.Add(strings.Join(test.texts, "\n"))
	}

	f.Fuzz(func(t *testing.T, text string) {
		settings := unitfile.Parse(text)
		again := unitfile.Parse(write(settings))
		if diff := cmp.Diff(settings, again); diff != "" {
			t.Errorf("%q, written as %q (-first +again):\n%s", text, write(settings), diff)
		}

		for _, setting := range settings {
			if strings.ContainsAny(setting.Section+setting.Name+setting.Value, "\n\r\x00") {
				t.Errorf("%q: the end of a line is in %+v", text, setting)
			}
		}
	})
}
