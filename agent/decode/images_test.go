package decode

import (
	"os"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/osc"
)

// TestLookingForImagesIsNoReasonToLookAgain: what Prepare writes is not
// watched, and is written once.
func TestLookingForImagesIsNoReasonToLookAgain(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()

	i := NewImages(durable.New(root, nil), nil)
	for _, name := range i.WatchedFiles([]osc.Reference{{Image: "a.b/c:v1", Path: "/d"}}) {
		if strings.HasPrefix(name, PreparedHosts) {
			t.Errorf("%s is watched", name)
		}
	}

	const name = PreparedHosts + "/a.b/hosts.toml"
	mirrors := []config.File{{Path: name, Mode: 0o644, Content: config.Text("one")}}
	var before os.FileInfo
	for range 2 {
		if err := i.Prepare(mirrors, nil); err != nil {
			t.Fatal(err)
		}
		info, err := root.Stat(name[1:])
		if err != nil {
			t.Fatal(err)
		}
		if before != nil && !os.SameFile(before, info) {
			t.Error("the same mirrors were written again")
		}
		before = info
	}

	if err := i.Prepare(nil, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := root.Stat(name[1:]); err == nil {
		t.Error("mirrors that no configuration has are still there")
	}
}
