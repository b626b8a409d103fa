package rootfs

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/firmware/device"
	"github.com/loam-os/loam/hint"
)

// put makes empty files and a link in a new directory.
func put(t *testing.T, names ...string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "firmware")
	for _, name := range names {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("elsewhere", path); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestPrune(t *testing.T) {
	dir := put(t, "a/1.bin", "a/2.old", "b/c/d", "b/e", "f")
	keep := device.List{Entries: []device.Entry{{Pattern: "a/*.bin"}, {Pattern: "b/e"}}}
	if err := prune(dir, keep); err != nil {
		t.Fatal(err)
	}

	var left []string
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, _ fs.DirEntry, err error) error {
		left = append(left, path)
		return err
	})
	if diff := cmp.Diff([]string{".", "a", "a/1.bin", "b", "b/e"}, left); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestPruneEverything(t *testing.T) {
	dir := put(t, "a/b")
	for range 2 {
		if err := prune(dir, device.List{}); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Error("the directory is still there")
		}
	}
}

func TestPruneMissesWhatIsListed(t *testing.T) {
	err := prune(put(t, "a/1.old"),
		device.List{Entries: []device.Entry{{Package: "pack", Pattern: "a/*.bin"}}})
	if err == nil ||
		hint.Text(err) !=
			"firmware: package pack has no a/*.bin\nhint: firmware/device/firmware.list names it" {
		t.Error(err)
	}
}
