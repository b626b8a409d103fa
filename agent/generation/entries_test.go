package generation

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/test/judge"
)

func own(name, content string) config.Unit { return config.Unit{Name: name, Content: &content} }

func disabled(u config.Unit) config.Unit {
	no := false
	u.Enable = &no
	return u
}

func TestEnablementLinks(t *testing.T) {
	const wanted = "[Install]\nWantedBy=multi-user.target\n"
	tests := []struct {
		name   string
		units  []config.Unit
		vendor Vendor
		want   map[string]string
	}{
		{
			name: "wanted, required and upheld",
			units: []config.Unit{own("a.service", "[Install]\nWantedBy=b.target c.target\n"+
				"RequiredBy=d.target\nUpheldBy=e.target\n")},
			want: map[string]string{
				"b.target.wants/a.service":    "/etc/systemd/system/a.service",
				"c.target.wants/a.service":    "/etc/systemd/system/a.service",
				"d.target.requires/a.service": "/etc/systemd/system/a.service",
				"e.target.upholds/a.service":  "/etc/systemd/system/a.service",
			},
		},
		{
			name: "comments, continued lines, other sections and an emptied list",
			units: []config.Unit{own("a.service", "[Unit]\nWantedBy=no.target\n[Install]\n"+
				"# WantedBy=no.target\nWantedBy=no.target\nWantedBy=\nWantedBy=b.target \\\n"+
				"  c.target\n")},
			want: map[string]string{
				"b.target.wants/a.service": "/etc/systemd/system/a.service",
				"c.target.wants/a.service": "/etc/systemd/system/a.service",
			},
		},
		{
			name:  "after a line that ends in an escaped backslash",
			units: []config.Unit{own("a.service", "[Unit]\nDescription=a\\\\\n"+wanted)},
			want: map[string]string{
				"multi-user.target.wants/a.service": "/etc/systemd/system/a.service",
			},
		},
		{
			name:  "after a line that ends in a backslash and a blank",
			units: []config.Unit{own("a.service", "[Unit]\nDescription=a\\ \n"+wanted)},
			want: map[string]string{
				"multi-user.target.wants/a.service": "/etc/systemd/system/a.service",
			},
		},
		{
			name:  "lines that end in CR",
			units: []config.Unit{own("a.service", strings.ReplaceAll(wanted, "\n", "\r"))},
			want: map[string]string{
				"multi-user.target.wants/a.service": "/etc/systemd/system/a.service",
			},
		},
		{
			name: "names in quotes, and with a backslash",
			units: []config.Unit{own("a.service", "[Install]\nWantedBy=\"b.target\" 'c.target'\n"+
				"RequiredBy=dev-d\\x2de.device\n")},
			want: map[string]string{
				"b.target.wants/a.service":              "/etc/systemd/system/a.service",
				"c.target.wants/a.service":              "/etc/systemd/system/a.service",
				"dev-d\\x2de.device.requires/a.service": "/etc/systemd/system/a.service",
			},
		},
		{
			name: "a drop-in after a text that ends within a section and a line",
			units: []config.Unit{{
				Name:    "a.service",
				Content: new("[Install]\nAlias=b.service \\"),
				DropIns: []config.DropIn{
					{Name: "1.conf", Content: "WantedBy=no.target\n"},
					{Name: "2.conf", Content: "\ufeff" + wanted},
				},
			}},
			want: map[string]string{
				"b.service":                         "/etc/systemd/system/a.service",
				"multi-user.target.wants/a.service": "/etc/systemd/system/a.service",
			},
		},
		{
			name:  "a unit of the image",
			units: []config.Unit{{Name: "a.service"}},
			vendor: Vendor{
				Texts: map[string]string{"a.service": wanted},
				Paths: map[string]string{"a.service": "/usr/lib/systemd/system/a.service"},
			},
			want: map[string]string{
				"multi-user.target.wants/a.service": "/usr/lib/systemd/system/a.service",
			},
		},
		{
			name: "an instance of a template, with specifiers",
			units: []config.Unit{
				disabled(own("a@.service", "[Install]\nWantedBy=%i.target\nAlias=%p-%i.service\n")),
				{Name: "a@x.service"},
			},
			want: map[string]string{
				"x.target.wants/a@x.service": "/etc/systemd/system/a@.service",
				"a-x.service":                "/etc/systemd/system/a@.service",
			},
		},
		{
			name:  "a template with a default instance",
			units: []config.Unit{own("a@.service", wanted+"DefaultInstance=x\n")},
			want: map[string]string{
				"multi-user.target.wants/a@x.service": "/etc/systemd/system/a@.service",
			},
		},
		{
			name: "names that no unit has, and an alias of a type that has none",
			units: []config.Unit{own("a.mount", "[Install]\nWantedBy=b.traget b.target\n"+
				"RequiredBy=b\nAlias=c.mount\n")},
			want: map[string]string{
				"b.target.wants/a.mount": "/etc/systemd/system/a.mount",
			},
		},
		{
			name:  "a template without an instance, and names that depend on it",
			units: []config.Unit{own("a@.service", "[Install]\nWantedBy=%i.target\nAlias=%i.service\n")},
			want:  map[string]string{},
		},
		{
			name:  "a template without an instance",
			units: []config.Unit{own("a@.service", wanted)},
			want:  map[string]string{},
		},
		{
			name: "the units of Also, except disabled ones",
			units: []config.Unit{
				own("a.service", "[Install]\nAlso=a.socket b.service\n"),
				own("a.socket", "[Install]\nWantedBy=sockets.target\n"),
				disabled(own("b.service", wanted)),
			},
			want: map[string]string{
				"sockets.target.wants/a.socket": "/etc/systemd/system/a.socket",
			},
		},
		{
			name:  "a disabled unit",
			units: []config.Unit{disabled(own("a.service", wanted))},
			want:  map[string]string{},
		},
		{
			name:  "a disabled unit that the image enables",
			units: []config.Unit{disabled(config.Unit{Name: "a.service"})},
			vendor: Vendor{
				Texts: map[string]string{"a.service": wanted},
				Links: []string{"multi-user.target.wants/a.service"},
			},
			want: map[string]string{"multi-user.target.wants/a.service": "/dev/null"},
		},
		{
			name: "an [Install] section in a drop-in",
			units: []config.Unit{{
				Name:    "a.service",
				Content: new(string),
				DropIns: []config.DropIn{
					{Name: "10-install.conf", Content: wanted},
				},
			}},
			want: map[string]string{
				"multi-user.target.wants/a.service": "/etc/systemd/system/a.service",
			},
		},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tree, err := Expand(config.Desired{Units: tt.units}, tt.vendor)
			if err != nil {
				t.Fatal(err)
			}

			got := map[string]string{}
			for _, e := range tree.Entries {
				if e.Kind == KindLink {
					got[e.Path[len(unitDir)+1:]] = e.Target
				}
			}

			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("links (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExpandRefuses(t *testing.T) {
	tests := []struct {
		name string
		unit config.Unit
	}{
		{"an unknown unit", config.Unit{Name: "a.service"}},
		{"the agent's own unit", config.Unit{Name: AgentUnit}},
		{"an alias of another type", own("a.service", "[Install]\nAlias=a.socket\n")},
		{"an alias that is a path", own("a.service", "[Install]\nAlias=../../passwd.service\n")},
		{
			"a target that leaves the directory",
			own("a.service", "[Install]\nWantedBy=../../../../usr/x\n"),
		},
		{"a specifier of the machine", own("a.service", "[Install]\nWantedBy=%H.target\n")},
		{
			"a default instance that is a path",
			own("a@.service", "[Install]\nDefaultInstance=b/c\nWantedBy=b.target\n"),
		},
		{"a specifier in Also", own("a.service", "[Install]\nAlso=%p.socket\n")},
		{"an unknown unit in Also", own("a.service", "[Install]\nAlso=b.service\n")},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Expand(config.Desired{Units: []config.Unit{tt.unit}}, Vendor{})
			var refused *Error
			if !errors.As(err, &refused) || refused.Unit != tt.unit.Name || refused.Problem == "" {
				t.Errorf("got %v", err)
			}
		})
	}
}

// systemctl makes the same links of a unit and its drop-in.
func TestSystemctlMakesTheSameLinks(t *testing.T) {
	systemctl := judge.Systemd(t, "systemctl")
	const wanted = "[Install]\nWantedBy=b.target\n"
	for _, test := range []struct{ name, unit, text, dropIn string }{
		{"a word", "a.service", wanted, ""},
		{"an escaped backslash", "a.service", "[Unit]\nDescription=a\\\\\n" + wanted, ""},
		{"a backslash and a blank", "a.service", "[Unit]\nDescription=a\\ \n" + wanted, ""},
		{"three backslashes", "a.service", "[Unit]\nDescription=a\\\\\\\n" + wanted, ""},
		{"a value on two lines", "a.service", wanted + "RequiredBy=c.target \\\n# x\n d.target\n", ""},
		{"CR", "a.service", "[Install]\rWantedBy=b.target\rAlias=c.service\r", ""},
		{"LF and CR", "a.service", "[Install]\n\rWantedBy=b.target \\\n\rc.target\n\r", ""},
		{"NUL", "a.service", "[Install]\nWantedBy=b.target\x00Alias=c.service\x00\x00", ""},
		{"quotes", "a.service", "[Install]\nWantedBy=\"b.target\" c.tar'get' d.target\n", ""},
		{"an open quote", "a.service", "[Install]\nWantedBy=b.target \"c.target\n", ""},
		{"an escaped name", "a.service", "[Install]\nWantedBy=dev-b\\x2dc.device\n", ""},
		{"an emptied list", "a.service", wanted + "WantedBy=\nWantedBy=c.target\n", ""},
		{"a default instance", "a@.service", wanted + "DefaultInstance=x\n", ""},
		{"a target with a typing error", "a.service", "[Install]\nWantedBy=b.traget c.target d\n", ""},
		{"an alias of a mount", "a.mount", wanted + "Alias=c.mount\n", ""},
		{"specifiers", "a-b.service", "[Install]\nWantedBy=%p.target %j.target %N.target\n", ""},
		{"a drop-in", "a.service", "[Service]\n", wanted},
		{"a drop-in without a section", "a.service", wanted, "RequiredBy=c.target\n"},
		{"a drop-in after an open line", "a.service", wanted + "Alias=c.service \\", wanted},
	} {
		t.Run(test.name, func(t *testing.T) {
			unit := own(test.unit, test.text)
			unit.DropIns = []config.DropIn{{Name: "1.conf", Content: test.dropIn}}
			tree, err := Expand(config.Desired{Units: []config.Unit{unit}}, Vendor{})
			if err != nil {
				t.Fatal(err)
			}

			want := map[string]string{}
			for _, e := range tree.Entries {
				if e.Kind == KindLink {
					want[e.Path] = e.Target
				}
			}

			root := t.TempDir()
			dir := filepath.Join(root, unitDir)
			place(t, filepath.Join(dir, test.unit), test.text)
			place(t, filepath.Join(dir, test.unit+".d/1.conf"), test.dropIn)

			// It exits with 1 if a word names no unit, after it has made the other links.
			out, _ := exec.Command(systemctl, "--root="+root, "enable", test.unit).CombinedOutput()
			if diff := cmp.Diff(want, linksIn(t, root)); diff != "" {
				t.Errorf("links (-here +systemctl):\n%s\n%s", diff, out)
			}
		})
	}
}

func place(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// linksIn returns the targets of the symbolic links below root, by path.
func linksIn(t *testing.T, root string) map[string]string {
	t.Helper()
	links := map[string]string{}
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type() != fs.ModeSymlink {
			return err
		}

		target, err := os.Readlink(file)
		links[strings.TrimPrefix(file, root)] = target
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return links
}

func TestUnitWatchesItsEnvironmentFiles(t *testing.T) {
	d := config.Desired{
		Files: []config.File{{Path: "/etc/b"}, {Path: "/etc/c d"}, {Path: "/etc/default/a"}},
		Units: []config.Unit{{
			Name:      "a.service",
			Content:   new(string),
			FilePaths: []string{"/etc/b"},
			DropIns: []config.DropIn{
				{
					Name: "1.conf",
					Content: "[Service]\nEnvironmentFile=-/etc/default/a\n" +
						"EnvironmentFile=/etc/environment\nEnvironmentFile=/etc/c d\n",
				},
			},
		}},
	}

	tree, err := Expand(d, Vendor{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/etc/b", "/etc/c d", "/etc/default/a"}, tree.Units[0].FilePaths); diff != "" {
		t.Errorf("watched files (-want +got):\n%s", diff)
	}
}

func TestPlace(t *testing.T) {
	m := Manifest{Entries: []Entry{
		{Path: "/etc/a.conf", Kind: KindFile, Mode: 0o644},
		{Path: "/etc/kubernetes/manifests/a.yaml", Kind: KindFile, Mode: 0o600},
		{
			Path:   "/etc/systemd/system/b.target.wants/a.service",
			Kind:   KindLink,
			Target: "/etc/systemd/system/a.service",
		},
		{Path: "/opt/bin/kubelet", Kind: KindFile, Mode: 0o755},
		{Path: "/var/lib/kubelet/ca.crt", Kind: KindFile, Mode: 0o644},
	}}

	want := []string{
		"symlink /run/loam/current/root/etc/a.conf", "copy ",
		"symlink /etc/systemd/system/a.service",
		"symlink /run/loam/current/root/opt/bin/kubelet", "copy ",
	}

	var got []string
	for i, p := range Place(m) {
		if p.Path != m.Entries[i].Path || p.Mode != m.Entries[i].Mode {
			t.Errorf("placement %+v of %+v", p, m.Entries[i])
		}
		got = append(got, string(p.Kind)+" "+p.Target)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("placements (-want +got):\n%s", diff)
	}
}
