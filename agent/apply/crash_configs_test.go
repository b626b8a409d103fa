package apply_test

import (
	"fmt"
	"io/fs"
	"math/rand/v2"

	"github.com/loam-os/loam/agent/config"
)

// conf is a file of the crash tests' configurations.
func conf(name, text string, mode fs.FileMode) config.File {
	return config.File{Path: name, Mode: mode, Content: config.Text(text)}
}

// daemon is a unit that is started at boot and reads files.
func daemon(name string, environment ...string) config.Unit {
	text := "[Service]\n"
	for _, file := range environment {
		text += "EnvironmentFile=" + file + "\n"
	}
	text += "[Install]\nWantedBy=multi-user.target\n"
	return config.Unit{Name: name, Content: &text}
}

// crashOld and crashNew differ in all that one change can bring: content, modes,
// directories for files and files for directories, real files and links, units
// that come, go, change and are disabled, drop-ins, files of the image.
func crashOld() config.Desired {
	no := false
	return config.Desired{
		Files: []config.File{
			conf("/etc/app/a.conf", "one\n", 0o644),
			conf("/etc/becomes", "a directory", 0o644),
			conf("/etc/issue", "of the configuration\n", 0o644),
			conf("/etc/kubernetes/manifests/a.yaml", "a: 1\n", 0o600),
			conf("/etc/localtime", "a file", 0o644),
			conf("/etc/script", "same", 0o644),
			conf("/etc/was/dir/file", "x", 0o644),
			conf("/opt/bin/tool", "1", 0o755),
			conf("/var/lib/app/data", "secret\n", 0o600),
			conf("/var/lib/app/env", "B=1\n", 0o644),
			conf("/var/lib/becomes", "a directory", 0o644),
			conf("/var/lib/was/dir/file", "y", 0o644),
		},
		Units: []config.Unit{
			daemon("changes.service", "/etc/app/a.conf"),
			{Name: "containerd.service", DropIns: []config.DropIn{{Name: "10-a.conf", Content: "[Service]\nEnvironment=A=1\n"}}},
			daemon("data.service", "/var/lib/app/env"),
			daemon("gone.service"),
			{Name: "plain.service"},
			daemon("stays.service"),
			{Name: "stops.service", Content: daemon("").Content},
			{Name: "was-off.service", Content: daemon("").Content, Enable: &no},
		},
	}
}

func crashNew() config.Desired {
	no := false
	return config.Desired{
		Files: []config.File{
			conf("/etc/app/a.conf", "two\n", 0o644),
			conf("/etc/becomes/file", "in it", 0o644),
			conf("/etc/kubernetes/manifests/a.yaml", "a: 2\n", 0o600),
			conf("/etc/kubernetes/manifests/b.yaml", "b: 1\n", 0o600),
			conf("/etc/script", "same", 0o755),
			conf("/etc/was", "a file", 0o644),
			conf("/opt/bin/tool", "2", 0o755),
			conf("/opt/cni/bin/plugin", "p", 0o755),
			conf("/var/lib/app/env", "B=2\n", 0o644),
			conf("/var/lib/becomes/file", "in it", 0o644),
			conf("/var/lib/was", "a file", 0o600),
		},
		Units: []config.Unit{
			daemon("changes.service", "/etc/app/a.conf"),
			{Name: "containerd.service", DropIns: []config.DropIn{{Name: "20-b.conf", Content: "[Service]\nEnvironment=B=1\n"}}},
			daemon("data.service", "/var/lib/app/env"),
			daemon("new.service"),
			daemon("stays.service"),
			{Name: "stops.service", Content: daemon("").Content, Enable: &no},
			daemon("was-off.service"),
		},
	}
}

// small has one file and one unit that reads it.
func small(text string) config.Desired {
	return config.Desired{
		Files: []config.File{conf("/etc/app/a.conf", text, 0o644), conf("/var/lib/app/"+text, text, 0o644)},
		Units: []config.Unit{daemon("one.service", "/etc/app/a.conf")},
	}
}

// randomConfig draws from few names, so that two of them meet.
func randomConfig(r *rand.Rand) config.Desired {
	var d config.Desired
	kinds := []string{"/etc/f%d", "/etc/kubernetes/f%d", "/opt/cni/f%d", "/var/lib/f%d"}
	for _, kind := range kinds {
		for i := range 3 {
			name := fmt.Sprintf(kind, i)
			switch r.IntN(5) {
			case 0, 1:
			case 2:
				name += "/x/y"
				fallthrough
			default:
				mode := []fs.FileMode{0o600, 0o644, 0o755}[r.IntN(3)]
				d.Files = append(d.Files, conf(name, fmt.Sprint(r.IntN(3)), mode))
			}
		}
	}
	for i := range 4 {
		u := daemon(fmt.Sprintf("u%d.service", i))
		if len(d.Files) > 0 && r.IntN(2) == 0 {
			u = daemon(u.Name, d.Files[r.IntN(len(d.Files))].Path)
		}
		if r.IntN(4) == 0 {
			off := false
			u.Enable = &off
		}
		if r.IntN(3) == 0 {
			u.DropIns = []config.DropIn{{Name: "10.conf", Content: fmt.Sprintf("[Service]\nEnvironment=X=%d\n", r.IntN(2))}}
		}
		if r.IntN(3) > 0 {
			d.Units = append(d.Units, u)
		}
	}
	return d
}
