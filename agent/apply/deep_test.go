package apply_test

import (
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/osc"
)

// TestDeepPaths has files as deep as agent/osc allows: each directory of a
// generation is a link.
func TestDeepPaths(t *testing.T) {
	n, _ := fakeNode(t)
	e := n.executor(t, nil)
	const parts = osc.MaxDepth - 1
	names := []string{
		"/etc" + strings.Repeat("/d", parts),
		"/var" + strings.Repeat("/d", parts),
		"/opt" + strings.Repeat("/d", parts),
	}
	for _, content := range []string{"one", "two"} {
		d := config.Desired{}
		for _, name := range names {
			d.Files = append(d.Files,
				config.File{Path: name, Mode: 0o644, Content: config.Text(content)})
		}

		m, err := e.Apply(t.Context(), request(d))
		if err != nil {
			t.Fatal(err)
		}

		accept(t, e)
		for _, name := range names {
			through := path.Join("/var/lib/loam/generations", m.Name(), "root", name)
			for _, name := range []string{name, through} {
				text, err := fs.ReadFile(os.DirFS(n.root.Name()), resolve(t, n.root, name))
				if err != nil || string(text) != content {
					t.Errorf("%s: %q %v", name, text, err)
				}
			}
		}

		if r, err := e.Resume(t.Context()); err != nil || len(r.Repaired) > 0 {
			t.Errorf("resume: %+v %v", r, err)
		}
		if v, err := e.Verify(t.Context(), nil, false, nil); err != nil || len(v.Bad) > 0 {
			t.Errorf("verify: %+v %v", v, err)
		}
	}
}

// resolve follows the links of an absolute path beneath root, one by one, and returns
// where they lead. More than 20, with one of the image such as /opt, are an error.
func resolve(t *testing.T, root *os.Root, name string) string {
	t.Helper()
	const most = 20 - 1
	at, rest := ".", strings.Split(strings.Trim(name, "/"), "/")
	links := 0
	for len(rest) > 0 {
		next := path.Join(at, rest[0])
		rest = rest[1:]
		target, err := root.Readlink(next)
		if err != nil { // It is no link.
			at = next
			continue
		}
		links++
		if path.IsAbs(target) {
			at = "."
		}
		rest = append(strings.Split(strings.Trim(target, "/"), "/"), rest...)
	}
	if links > most {
		t.Errorf("%s goes through %d links, more than %d", name, links, most)
	}
	return at
}
