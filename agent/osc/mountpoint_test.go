package osc_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/osc"
	"github.com/loam-os/loam/test/judge"
)

// Each row is refused with this hint; accepted is as in TestBadInput.
func TestMountPoints(t *testing.T) {
	mount := func(name, text string) string {
		return unit("name: '"+name+"'", `content: "`+text+`"`)
	}
	for _, test := range []struct {
		name, text, hint string
		accepted         bool
	}{
		{
			name: "through a link", accepted: true,
			text: mount("opt-data.mount", `[Mount]\nWhat=/dev/sdb\nWhere=/opt/data\n`),
			hint: "write Where=/var/opt/data, and name the unit var-opt-data.mount",
		},
		{
			name: "through a link, by its name", accepted: true,
			text: mount("srv-x.mount", `[Mount]\nWhat=/dev/sdb\n`),
			hint: "write Where=/var/srv/x, and name the unit var-srv-x.mount",
		},
		{
			name: "a link itself", accepted: true,
			text: mount("home.automount", `[Automount]\nWhere=/home\n`),
			hint: "write Where=/var/home, and name the unit var-home.automount",
		},
		{
			name: "/usr/local", accepted: true,
			text: mount(`usr-local-a\x2db.mount`, `[Mount]\nWhat=/dev/sdb\nWhere=/usr/local/a-b\n`),
			hint: `write Where=/var/usrlocal/a-b, and name the unit var-usrlocal-a\x2db.mount`,
		},
		{
			name: "/var/run", accepted: true,
			text: mount("var-run-x.mount", `[Mount]\nWhat=tmpfs\nWhere=/var/run/x\n`),
			hint: "write Where=/run/x, and name the unit run-x.mount",
		},
		{
			name: "a drop-in only", accepted: true,
			text: unit("name: root-x.mount", `dropIns: [{name: a.conf, content: "[Mount]\nOptions=ro\n"}]`),
			hint: "name the unit var-roothome-x.mount",
		},
		{
			name: "paths of a dependency", accepted: true,
			text: mount("a.target", `[Unit]\nRequiresMountsFor=/var/lib /opt/data\n`),
			hint: "write /var/opt/data",
		},
		{
			name: "the name of a dependency", accepted: true,
			text: mount("a.target", `[Unit]\nAfter=srv-x.mount\n`),
			hint: "write var-srv-x.mount",
		},
		{
			name: "a path for a dependency", accepted: true,
			text: mount("a.target", `[Unit]\nRequires=/srv/x\n`),
			hint: "write /var/srv/x",
		},
		{
			name: "the node agent's state",
			text: mount("var-lib-loam.mount", `[Mount]\nWhat=/dev/sdb\nWhere=/var/lib/loam\n`),
			hint: "choose another directory",
		},
		{
			name: "above the node agent's state",
			text: mount("var.mount", `[Mount]\nWhat=/dev/sdb\nWhere=/var\n`),
			hint: "choose another directory",
		},
		{
			name: "over the programs",
			text: mount("usr.automount", `[Automount]\nWhere=/usr\n`),
			hint: "choose another directory",
		},
		{
			name: "the units",
			text: mount("etc.mount", `[Mount]\nWhat=/dev/sdb\nWhere=/etc\n`),
			hint: "choose another directory",
		},
		{
			name: "a name that is not the path's", accepted: true,
			text: mount("a.mount", `[Mount]\nWhat=/dev/sdb\nWhere=/var/lib/a\n`),
			hint: "name the unit var-lib-a.mount",
		},
		{name: "as it is right", text: mount("var-opt-data.mount", `[Mount]\nWhat=/dev/sdb\nWhere=/var/opt/data\n`)},
		{name: "below the image", text: mount("usr-libexec-other.mount", `[Mount]\nWhat=tmpfs\n`)},
		{
			name: "the plugins of the kubelet", accepted: true,
			text: mount("usr-libexec-kubernetes.mount", `[Mount]\nWhat=tmpfs\n`),
			hint: "write Where=/var/usrlibexec/kubernetes, and name the unit " +
				"var-usrlibexec-kubernetes.mount",
		},
		{name: "near a link", text: mount("optional.mount", `[Mount]\nWhat=tmpfs\nWhere=/optional\n`)},
		{name: "an instance", text: mount("mnt@x.mount", `[Mount]\nWhat=tmpfs\nWhere=/mnt/%i\n`)},
		{name: "a service in a link", text: mount("a.service", `[Service]\nExecStart=/opt/bin/x\nWorkingDirectory=/opt\n`)},
	} {
		err := mergeText(test.text, osc.Env{})
		switch {
		case test.hint == "" && err != nil:
			t.Errorf("%s: %v", test.name, err)
		case test.hint != "" && (err == nil || !strings.HasSuffix(err.Error(), "; hint: "+test.hint)):
			t.Errorf("%s: %v, want the hint %q", test.name, err, test.hint)
		case test.hint != "" && accepts(err) != test.accepted:
			t.Errorf("%s: accepted from a cluster: %t", test.name, accepts(err))
		}
	}
}

// TestLinksAreThoseOfTheImage compares the links that are known with those of
// the image and of its tmpfiles.d.
func TestLinksAreThoseOfTheImage(t *testing.T) {
	tree := judge.Dir(t, "LOAM_ROOT_TREE")
	want := map[string]string{}
	for _, pattern := range []string{"*", "usr/*", "usr/libexec/*"} {
		found, err := filepath.Glob(filepath.Join(tree, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range found {
			target, err := os.Readlink(file)
			if err != nil {
				continue // It is not a link.
			}
			link := strings.TrimPrefix(file, tree)
			want[link] = filepath.Join(filepath.Dir(link), target)
		}
	}

	text, err := os.ReadFile(filepath.Join(tree, "usr/lib/tmpfiles.d/loam.conf"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 7 && fields[0] == "L" {
			want[fields[1]] = filepath.Join(filepath.Dir(fields[1]), fields[6])
		}
	}

	if diff := cmp.Diff(want, osc.Links()); diff != "" {
		t.Errorf("links (-image +known):\n%s", diff)
	}
}
