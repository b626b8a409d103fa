package config_test

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strings"

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

// confs reads files from lines of mode, path and text.
func confs(lines string) []config.File {
	var files []config.File
	for line := range strings.Lines(lines) {
		var mode fs.FileMode
		var name, text string
		if _, err := fmt.Sscanf(line, "%o %s %q\n", &mode, &name, &text); err != nil {
			panic(fmt.Errorf("%s: %w", line, err))
		}
		files = append(files, conf(name, text, mode))
	}
	return files
}

// crashOldFiles and crashNewFiles differ in all that one change can bring to
// files: content, modes, directories for files and files for directories, real
// files and links, files of the image.
const (
	crashOldFiles = `644 /etc/app/a.conf "one\n"
644 /etc/becomes "a directory"
644 /etc/issue "of the configuration\n"
600 /etc/kubernetes/manifests/a.yaml "a: 1\n"
644 /etc/localtime "a file"
644 /etc/script "same"
644 /etc/was/dir/file "x"
755 /opt/bin/tool "1"
600 /var/lib/app/data "secret\n"
644 /var/lib/app/env "B=1\n"
644 /var/lib/becomes "a directory"
644 /var/lib/was/dir/file "y"
`
	crashNewFiles = `644 /etc/app/a.conf "two\n"
644 /etc/becomes/file "in it"
600 /etc/kubernetes/manifests/a.yaml "a: 2\n"
600 /etc/kubernetes/manifests/b.yaml "b: 1\n"
755 /etc/script "same"
644 /etc/was "a file"
755 /opt/bin/tool "2"
755 /opt/cni/bin/plugin "p"
644 /var/lib/app/env "B=2\n"
644 /var/lib/becomes/file "in it"
600 /var/lib/was "a file"
`
)

// commonUnits are in both configurations of the crash tests; containerd has a
// drop-in that says text.
func commonUnits(dropIn, text string) []config.Unit {
	return []config.Unit{
		daemon("changes.service", "/etc/app/a.conf"),
		{
			Name: "containerd.service",
			DropIns: []config.DropIn{{
				Name:    dropIn,
				Content: "[Service]\nEnvironment=" + text + "\n",
			}},
		},
		daemon("data.service", "/var/lib/app/env"),
		daemon("stays.service"),
	}
}

// off is a unit that is not started at boot.
func off(u config.Unit) config.Unit { no := false; u.Enable = &no; return u }

// crashOld and crashNew differ in their files, in units that come, go, change
// and are disabled, and in drop-ins.
func crashOld() config.Desired {
	return config.Desired{
		Files: confs(crashOldFiles),
		Units: append(commonUnits("10-a.conf", "A=1"),
			daemon("gone.service"),
			config.Unit{Name: "plain.service"},
			daemon("stops.service"),
			off(daemon("was-off.service"))),
	}
}

func crashNew() config.Desired {
	return config.Desired{
		Files: confs(crashNewFiles),
		Units: append(commonUnits("20-b.conf", "B=1"),
			daemon("new.service"), off(daemon("stops.service")), daemon("was-off.service")),
	}
}

// small has one file and one unit that reads it.
func small(text string) config.Desired {
	return config.Desired{
		Files: []config.File{conf("/etc/app/a.conf",
			text, 0o644), conf("/var/lib/app/"+text, text, 0o644)},
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
			u = off(u)
		}
		if r.IntN(3) == 0 {
			u.DropIns = []config.DropIn{{
				Name:    "10.conf",
				Content: fmt.Sprintf("[Service]\nEnvironment=X=%d\n", r.IntN(2)),
			}}
		}
		if r.IntN(3) > 0 {
			d.Units = append(d.Units, u)
		}
	}

	return d
}
