package build

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/rootfs"
)

// TestOldSoftwareIsNotBuilt takes this test for all programs of an image: it has a Go
// that is new enough, and no runc in it.
func TestOldSoftwareIsNotBuilt(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	p := programs{
		loam: filepath.Join(dir, "loam"),
		init: filepath.Join(dir, "init"),
		live: filepath.Join(dir, "init-live"),
	}
	tree := rootfs.Root{Dir: filepath.Join(dir, "tree")}
	for _, file := range append(p.all(), filepath.Join(tree.Dir, "usr/bin/runc")) {
		copyProgram(t, self, file)
	}

	err = checkFloors(tree, p)
	if fault.Of(err) != fault.BelowFloor ||
		!strings.Contains(err.Error(), "github.com/opencontainers/runc is not in the image") ||
		strings.Contains(err.Error(), "stdlib") {
		t.Errorf("%v", err)
	}
}

func copyProgram(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
}
