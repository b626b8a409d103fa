package generation

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/config"
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

func TestUnitWatchesItsEnvironmentFiles(t *testing.T) {
	d := config.Desired{
		Files: []config.File{{Path: "/etc/default/a"}, {Path: "/etc/b"}},
		Units: []config.Unit{{
			Name:      "a.service",
			Content:   new(string),
			FilePaths: []string{"/etc/b"},
			DropIns: []config.DropIn{
				{
					Name: "1.conf",
					Content: "[Service]\nEnvironmentFile=-/etc/default/a\n" +
						"EnvironmentFile=/etc/environment\n",
				},
			},
		}},
	}

	tree, err := Expand(d, Vendor{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/etc/b", "/etc/default/a"}, tree.Units[0].FilePaths); diff != "" {
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
