// Package diskless has a node without any disk, in a directory.
package diskless

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/volume"
	"github.com/loam-os/loam/test/files"
)

// Volume returns a volume for data that nothing uses, until the test ends.
func Volume(t testing.TB) volume.Volume {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"sys/block", "var/lib/loam", "run/loam"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	files.Write(t, filepath.Join(dir, "proc/self/mountinfo"), "")

	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })

	return volume.Volume{
		For:     volume.Data,
		Machine: volume.Machine{Root: os.DirFS(dir)},
		Dir:     durable.New(root, nil),
		Path:    dir,
		InUse:   func(context.Context) bool { return false },
	}
}
