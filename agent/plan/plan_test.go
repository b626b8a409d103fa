package plan

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/unit"
)

// image has containerd enabled and journald, which needs no enabling.
var image = generation.Vendor{
	Texts: map[string]string{
		"containerd.service": "[Install]\n" +
			"WantedBy=multi-user.target\n",
		"journald.service": "",
		"plain.service": "[Install]\n" +
			"WantedBy=multi-user.target\n",
	},
	Paths: map[string]string{
		"containerd.service": "/usr/lib/systemd/system/containerd.service",
		"journald.service":   "/usr/lib/systemd/system/journald.service",
		"plain.service":      "/usr/lib/systemd/system/plain.service",
	},
	Links: []string{
		"multi-user.target.wants/containerd.service", "sysinit.target.wants/journald.service",
	},
}

func manifest(t *testing.T, number int, d config.Desired) generation.Manifest {
	t.Helper()
	tree, err := generation.Expand(d, image)
	if err != nil {
		t.Fatal(err)
	}
	return generation.Manifest{
		Number:  number,
		Digest:  d.Digest(),
		Entries: tree.Entries,
		Units:   tree.Units,
	}
}

func own(name, content string, watched ...string) config.Unit {
	return config.Unit{Name: name, Content: &content, FilePaths: watched}
}

func with(u config.Unit, edit func(*config.Unit)) config.Unit { edit(&u); return u }

func dropIn(text string) func(*config.Unit) {
	return func(u *config.Unit) { u.DropIns = []config.DropIn{{Name: "10-a.conf", Content: text}} }
}

func disable(u *config.Unit) { no := false; u.Enable = &no }

func stop(u *config.Unit) { u.Command = config.CommandStop }

func file(name, text string) config.File {
	return config.File{Path: name, Mode: 0o644, Content: config.Text(text)}
}

func units(all ...config.Unit) config.Desired { return config.Desired{Units: all} }

// withFile returns a unit and a file in the directory of units.
func withFile(u config.Unit, name, text string) config.Desired {
	return config.Desired{
		Files: []config.File{file(unitDir+"/"+name, text)},
		Units: []config.Unit{u},
	}
}

func TestUnits(t *testing.T) {
	vendor := func(name string) config.Unit { return config.Unit{Name: name} }
	up := Observed{
		"a.service":          {Active: "active"},
		"containerd.service": {Active: "active"},
		"journald.service":   {Active: "active"},
		"plain.service":      {Active: "active"},
	}

	tests := []struct {
		name       string
		have, want config.Desired
		observed   Observed
		actions    string
		noReload   bool
	}{
		{
			"a new unit",
			units(),
			units(own("a.service", "x")),
			Observed{"a.service": {Active: "inactive"}},
			"start a.service: new in the configuration, unit file a.service added",
			false,
		},
		{
			"a new unit of the image that is up",
			units(),
			units(vendor("journald.service")),
			up,
			"",
			true,
		},
		{
			"a new unit of the image that is up, with command restart",
			units(),
			units(with(vendor("journald.service"), func(u *config.Unit) {
				u.Command = config.CommandRestart
			})),
			up,
			"restart journald.service: command is restart",
			true,
		},
		{
			"a new drop-in of a unit of the image",
			units(),
			units(with(vendor("journald.service"), dropIn("y"))),
			up,
			"restart journald.service: drop-in 10-a.conf added",
			false,
		},
		{
			"a changed text",
			units(own("a.service", "x")),
			units(own("a.service", "y")),
			up,
			"restart a.service: unit file a.service changed",
			false,
		},
		{
			"a changed drop-in",
			units(with(own("a.service", "x"), dropIn("x"))),
			units(with(own("a.service", "x"), dropIn("y"))),
			up,
			"restart a.service: drop-in 10-a.conf changed",
			false,
		},
		{
			"a changed watched file",
			config.Desired{
				Files: []config.File{file("/etc/a", "x"), file("/etc/b", "x")},
				Units: []config.Unit{own("a.service", "x", "/etc/a"), own("b.service", "x")},
			},
			config.Desired{
				Files: []config.File{file("/etc/a", "y"), file("/etc/b", "y")},
				Units: []config.Unit{own("a.service", "x", "/etc/a"), own("b.service", "x")},
			},
			up,
			"restart a.service: file /etc/a changed",
			true,
		},
		{
			"only the list of watched files changes",
			config.Desired{
				Files: []config.File{file("/etc/a", "x")},
				Units: []config.Unit{own("a.service", "x")},
			},
			config.Desired{
				Files: []config.File{file("/etc/a", "x")},
				Units: []config.Unit{own("a.service", "x", "/etc/a")},
			},
			up,
			"",
			true,
		},
		{
			"a removed unit",
			units(own("a.service", "x")),
			units(),
			up,
			"stop a.service: no longer in the configuration",
			false,
		},
		{
			"a removed unit that is down",
			units(own("a.service", "x")),
			units(),
			Observed{"a.service": {Active: "failed"}},
			"",
			false,
		},
		{
			"a removed drop-in of a unit of the image",
			units(with(vendor("journald.service"), dropIn("x"))),
			units(),
			up,
			"restart journald.service: drop-in 10-a.conf removed",
			false,
		},
		{
			"a unit of the image that only the configuration enabled",
			units(vendor("plain.service")),
			units(),
			up,
			"stop plain.service: no longer enabled",
			false,
		},
		{
			"a unit of the image that was disabled is left to the image",
			units(with(vendor("containerd.service"), disable)),
			units(),
			Observed{"containerd.service": {Active: "inactive"}},
			"start containerd.service: the image enables it",
			false,
		},
		{
			"disabled",
			units(own("a.service", "x")),
			units(with(own("a.service", "x"), disable)),
			up,
			"stop a.service: disabled",
			true,
		},
		{
			"stopped by command",
			units(own("a.service", "x")),
			units(with(own("a.service", "x"), stop)),
			up,
			"stop a.service: the configuration wants it stopped",
			true,
		},
		{
			"no longer stopped",
			units(with(own("a.service", "x"), stop)),
			units(own("a.service", "x")),
			Observed{"a.service": {Active: "inactive"}},
			"start a.service: no longer stopped by the configuration",
			true,
		},
		{
			"a unit that should be up and is not",
			units(own("a.service", "x")),
			units(own("a.service", "x")),
			Observed{"a.service": {Active: "failed"}},
			"start a.service: it is failed",
			true,
		},
		{
			"a unit that is on its way",
			units(own("a.service", "x")),
			units(own("a.service", "x")),
			Observed{"a.service": {Active: "inactive", Job: true}},
			"",
			true,
		},
		{
			"a oneshot that is done",
			units(own("a.service", "x")),
			units(own("a.service", "x")),
			Observed{"a.service": {Active: "inactive", Type: "oneshot", Result: "success"}},
			"",
			true,
		},
		{
			"a oneshot that is done, changed",
			units(own("a.service", "x")),
			units(own("a.service", "y")),
			Observed{"a.service": {Active: "inactive", Type: "oneshot", Result: "success"}},
			"restart a.service: unit file a.service changed",
			false,
		},
		{
			"the mount of what the kubelet keeps, new and mounted",
			units(),
			units(own("var-lib-kubelet.mount", "x")),
			Observed{"var-lib-kubelet.mount": {Active: "active"}},
			"",
			false,
		},
		{
			"the mount of what the kubelet keeps, new and not mounted",
			units(),
			units(own("var-lib-kubelet.mount", "x")),
			Observed{"var-lib-kubelet.mount": {Active: "inactive"}},
			"start var-lib-kubelet.mount: new in the configuration, " +
				"unit file var-lib-kubelet.mount added",
			false,
		},
		{
			"the mount of what the kubelet keeps, with other options",
			units(own("var-lib-kubelet.mount", "x")),
			units(own("var-lib-kubelet.mount", "y")),
			Observed{"var-lib-kubelet.mount": {Active: "active"}},
			"",
			false,
		},
		{
			"the mount of what the kubelet keeps, removed",
			units(own("var-lib-kubelet.mount", "x")),
			units(),
			Observed{"var-lib-kubelet.mount": {Active: "active"}},
			"",
			false,
		},
		{
			"the template of an instance",
			units(with(own("a@.service", "x"), disable), vendor("a@1.service")),
			units(with(own("a@.service", "y"), disable), vendor("a@1.service")),
			Observed{"a@1.service": {Active: "active"}},
			"restart a@1.service: unit file a@.service changed",
			false,
		},
		{
			"a drop-in of a prefix of the name",
			withFile(own("a-b-c.service", "x"), "a-.service.d/1.conf", "x"),
			withFile(own("a-b-c.service", "x"), "a-.service.d/1.conf", "y"),
			Observed{"a-b-c.service": {Active: "active"}},
			"restart a-b-c.service: drop-in 1.conf changed",
			false,
		},
		{
			"a drop-in of a prefix of the name, in whose place a nearer one is read",
			withFile(with(own("a-b-c.service", "x"), dropIn("x")), "a-.service.d/10-a.conf", "x"),
			withFile(with(own("a-b-c.service", "x"), dropIn("x")), "a-.service.d/10-a.conf", "y"),
			Observed{"a-b-c.service": {Active: "active"}},
			"",
			false,
		},
		{
			"a drop-in of no prefix that ends in a dash",
			withFile(own("a-b.service", "x"), "a.service.d/1.conf", "x"),
			withFile(own("a-b.service", "x"), "a.service.d/1.conf", "y"),
			Observed{"a-b.service": {Active: "active"}},
			"",
			false,
		},
		{
			"a drop-in of a prefix of an instance's name",
			withFile(own("a-b@1.service", "x"), "a-.service.d/1.conf", "x"),
			withFile(own("a-b@1.service", "x"), "a-.service.d/1.conf", "y"),
			Observed{"a-b@1.service": {Active: "active"}},
			"restart a-b@1.service: drop-in 1.conf changed",
			false,
		},
		{
			"a drop-in of a prefix of an instance's name, with the instance",
			withFile(own("a-b@1.service", "x"), "a-@1.service.d/1.conf", "x"),
			units(own("a-b@1.service", "x")),
			Observed{"a-b@1.service": {Active: "active"}},
			"restart a-b@1.service: drop-in 1.conf removed",
			false,
		},
		{
			"a drop-in of the template, in whose place the instance's own is read",
			withFile(with(own("a-b@1.service", "x"), dropIn("x")), "a-b@.service.d/10-a.conf", "x"),
			withFile(with(own("a-b@1.service", "x"), dropIn("x")), "a-b@.service.d/10-a.conf", "y"),
			Observed{"a-b@1.service": {Active: "active"}},
			"",
			false,
		},
		{
			"containerd before others, kubelet last",
			units(own("gone.service", "x")),
			units(own("a.service", "x"), with(vendor("containerd.service"), dropIn("x")),
				own("kubelet.service", "x"), own("z.service", "x")),
			nil,
			"stop gone.service: no longer in the configuration\n" +
				"start containerd.service: new in the configuration, drop-in 10-a.conf added\n" +
				"start a.service: new in the configuration, unit file a.service added\n" +
				"start z.service: new in the configuration, unit file z.service added\n" +
				"start kubelet.service: new in the configuration, unit file kubelet.service added",
			false,
		},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := Diff(manifest(t, 1, tt.have), manifest(t, 2, tt.want), tt.observed)
			var got []string
			for _, a := range p.Units {
				got = append(got, string(a.Verb)+" "+a.Unit+": "+strings.Join(a.Why, ", "))
			}
			if diff := cmp.Diff(tt.actions, strings.Join(got, "\n")); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}

			if p.Reload == tt.noReload {
				t.Errorf("reload is %v", p.Reload)
			}

			same := manifest(t, 2, tt.want)
			if p := Diff(same, same, nil); !p.Empty() {
				t.Errorf("from itself to itself: %s", p)
			}
		})
	}
}

// TestOnDemand is about units that a timer, a path or a socket starts.
func TestOnDemand(t *testing.T) {
	const wanted = "[Install]\nWantedBy=x.target\n"
	timer := own("a.timer", wanted)
	path := own("a.path", wanted)
	socket := own("a.socket", wanted)
	service := own("a.service", "x")
	other := own("a.service", "y")
	watching := own("a.service", "x", "/etc/a")
	off := with(service, disable)
	ordered := with(off, func(u *config.Unit) { u.Command = config.CommandStart })
	state := func(s unit.State) Observed {
		up := unit.State{Active: "active"}
		return Observed{
			"a.timer":   up,
			"a.path":    up,
			"a.socket":  up,
			"a.service": s,
		}
	}

	down := state(unit.State{Active: "inactive", Result: "success"})
	failed := state(unit.State{Active: "failed"})
	busy := state(unit.State{Active: "activating"})
	running := state(unit.State{Active: "active"})
	tests := []struct {
		name       string
		have, want config.Desired
		observed   Observed
		actions    string
	}{
		{
			"new, by a timer",
			units(timer),
			units(timer, service),
			down,
			"start a.service: new in the configuration, unit file a.service added",
		},
		{
			"new, by a path",
			units(path),
			units(path, service),
			down,
			"start a.service: new in the configuration, unit file a.service added",
		},
		{"new, by a socket", units(socket), units(socket, service), down, ""},
		{
			"new, by a socket, and wanted",
			units(socket),
			units(socket, own("a.service", wanted)),
			down,
			"start a.service: new in the configuration, unit file a.service added",
		},
		{"new and disabled", units(timer), units(timer, off), down, ""},
		{"new and disabled, with command start", units(timer), units(timer, ordered), down, ""},
		{"down, and nothing of it changes", units(timer, service), units(timer, service), down, ""},
		{
			"failed, and nothing of it changes",
			units(timer, service),
			units(timer, service),
			failed,
			"",
		},
		{
			"down and wanted, and nothing of it changes",
			units(timer, own("a.service", wanted)),
			units(timer, own("a.service", wanted)),
			down,
			"",
		},
		{
			"down and changed, by a timer",
			units(timer, service),
			units(timer, other),
			down,
			"start a.service: unit file a.service changed",
		},
		{"down and changed, by a socket", units(socket, service), units(socket, other), down, ""},
		{
			"down, and a watched file changes",
			config.Desired{
				Files: []config.File{file("/etc/a", "x")},
				Units: []config.Unit{timer, watching},
			},
			config.Desired{
				Files: []config.File{file("/etc/a", "y")},
				Units: []config.Unit{timer, watching},
			},
			down,
			"start a.service: file /etc/a changed",
		},
		{
			"running and changed, by a socket",
			units(socket, service),
			units(socket, other),
			running,
			"restart a.service: unit file a.service changed",
		},
		{
			"on its way, and nothing of it changes",
			units(timer, service),
			units(timer, service),
			busy,
			"",
		},
		{
			"on its way and changed",
			units(timer, service),
			units(timer, other),
			busy,
			"restart a.service: unit file a.service changed",
		},
		{"running, and disabled as before", units(timer, off), units(timer, off), running, ""},
		{
			"running, and disabled now",
			units(timer, service),
			units(timer, off),
			running,
			"stop a.service: disabled",
		},
		{
			"running, disabled as before and changed",
			units(timer, off),
			units(timer, with(other, disable)),
			running,
			"stop a.service: disabled",
		},
		{
			"no longer disabled",
			units(timer, off),
			units(timer, service),
			down,
			"start a.service: no longer stopped by the configuration",
		},
		{
			"removed while it runs",
			units(timer, service),
			units(timer),
			running,
			"stop a.service: no longer in the configuration",
		},
		{
			"last, after kubelet",
			units(),
			units(timer, service, own("kubelet.service", wanted),
				own("z.service", wanted)),
			nil,
			"start a.timer: new in the configuration, unit file a.timer added\n" +
				"start z.service: new in the configuration, unit file z.service added\n" +
				"start kubelet.service: new in the configuration, " +
				"unit file kubelet.service added\n" +
				"start a.service: new in the configuration, unit file a.service added",
		},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, a := range Diff(manifest(t, 1, tt.have), manifest(t, 2, tt.want),
				tt.observed).Units {
				got = append(got, string(a.Verb)+" "+a.Unit+": "+strings.Join(a.Why, ", "))
			}
			if diff := cmp.Diff(tt.actions, strings.Join(got, "\n")); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFiles(t *testing.T) {
	script := file("/etc/mode", "x")
	script.Mode = 0o755
	have := config.Desired{Files: []config.File{
		file("/etc/changes", "x"), file("/etc/gone", "x"), file("/etc/mode", "x"),
		file("/etc/stays", "x"),
	}}

	want := config.Desired{Files: []config.File{
		file("/etc/changes", "y"), script, file("/etc/new", "x"), file("/etc/stays", "x"),
	}}

	p := Diff(manifest(t, 1, have), manifest(t, 2, want), nil)
	files := []File{
		{"/etc/changes", Changed},
		{"/etc/gone", Removed},
		{"/etc/mode", ModeOnly},
		{"/etc/new", Added},
	}
	if diff := cmp.Diff(files, p.Files); diff != "" || p.Reload {
		t.Errorf("files, reload %v (-want +got):\n%s", p.Reload, diff)
	}
}

// Earlier versions of Loam wrote them with mode 0644.
func TestModeOfAUnitFileRestartsNothing(t *testing.T) {
	d := units(with(own("a.service", "x"), dropIn("y")))
	want := manifest(t, 2, d)

	have := manifest(t, 1, d)
	for i := range have.Entries {
		if have.Entries[i].Mode != 0o600 {
			t.Errorf("%s has mode %s", have.Entries[i].Path, have.Entries[i].Mode)
		}
		have.Entries[i].Mode = 0o644
	}

	p := Diff(have, want, Observed{"a.service": {Active: "active"}})
	files := []File{
		{"/etc/systemd/system/a.service", ModeOnly},
		{"/etc/systemd/system/a.service.d/10-a.conf", ModeOnly},
	}
	if diff := cmp.Diff(files, p.Files); diff != "" || len(p.Units) > 0 {
		t.Errorf("units %v, files (-want +got):\n%s", p.Units, diff)
	}
}

func TestText(t *testing.T) {
	d := config.Desired{
		Files: []config.File{file("/etc/a", "x"), file("/etc/sysctl.d/a.conf", "x")},
		Units: []config.Unit{own("a.service", "x")},
	}

	m := manifest(t, 1, d)
	want := "from nothing to " + m.Name() + `
files
  added    /etc/a
  added    /etc/sysctl.d/a.conf, read at boot by systemd-sysctl.service
  added    /etc/systemd/system/a.service
units
  reload   systemd
  start    a.service  new in the configuration, unit file a.service added
`

	diff := cmp.Diff(want,
		Diff(generation.Manifest{}, m,
			Observed{"a.service": unit.State{Active: "inactive"}}).String())
	if diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}

	got := Diff(m, m, nil).String()
	if got != "nothing to do\nunits\n  keep     a.service  nothing of it changes\n" {
		t.Errorf("text of an empty plan: %q", got)
	}
}
