package generation

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/loam-os/loam/hint"
)

func TestObstructed(t *testing.T) {
	link := func(target string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink}
	}

	dir := &fstest.MapFile{Mode: fs.ModeDir | 0o755}
	node := fstest.MapFS{
		"opt": link("var/opt"), "var/opt": dir, "var/lib/dir/x": {}, "var/lib/file": {},
		"var/lib/link": link("../../etc"), "etc/file": {},
	}

	image := fstest.MapFS{"opt": link("var/opt")}
	have := Manifest{
		Entries: []Entry{{Path: "/var/lib/file"}, {Path: "/var/lib/dir/x"}},
		Dirs:    []string{"/var/lib/dir"},
	}

	tests := []struct {
		name, path string
		have       Manifest
		want       string
	}{
		{"nothing there", "/etc/new/file", Manifest{}, ""},
		{"a foreign file, which is replaced", "/etc/file", Manifest{}, ""},
		{
			"a directory of others",
			"/var/lib/dir",
			Manifest{},
			"/var/lib/dir: the node has a directory there; hint: choose another path, " +
				"or move the directory away",
		},
		{"a directory that Loam made", "/var/lib/dir", have, ""},
		{
			"a file of others above",
			"/var/lib/file/x",
			Manifest{},
			"/var/lib/file: the node has a file in place of a directory; hint: " +
				"choose another path, or move the file away",
		},
		{"a managed file above", "/var/lib/file/x", have, ""},
		{"a link of the image above", "/opt/bin/x", Manifest{}, ""},
		{
			"a link of others above",
			"/var/lib/link/passwd",
			Manifest{},
			"/var/lib/link: the directory was replaced by a link; hint: " +
				"write the path that it leads to, or remove the link",
		},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			if err := Obstructed(node, image, []Entry{{Path: tt.path}}, tt.have); err != nil {
				got = hint.Line(err)
			}
			if got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
