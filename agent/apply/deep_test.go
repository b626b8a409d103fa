package apply_test

import (
	"os"
	"path"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/config"
)

// TestDeepPaths has files as deep as agent/osc allows: each directory of a
// generation is a link. A kernel follows 40 links, and os.Root fewer.
func TestDeepPaths(t *testing.T) {
	n, _ := fakeNode(t)
	e := n.executor(t, nil)
	names := []string{"/etc" + strings.Repeat("/d", 23), "/var" + strings.Repeat("/d", 23)}
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
			through := path.Join(n.root.Name(), "var/lib/loam/generations", m.Name(), "root", name)
			if text, err := os.ReadFile(through); err != nil || string(text) != content {
				t.Errorf("%s in its generation: %q %v", name, text, err)
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
