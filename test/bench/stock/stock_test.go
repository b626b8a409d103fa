package stock

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/loam-os/loam/image/rootfs"
)

func TestDiskName(t *testing.T) {
	release := filepath.Join(t.TempDir(), "os-release")
	write := func(text string) {
		if err := os.WriteFile(release, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	name := func(tree string) string {
		n, err := diskName(rootfs.Root{Dir: tree},
			rootfs.Params{Config: "mkosi", Arch: "amd64"}, release)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}

	write("ID=loam\n")
	first := name("/cache/root-1/tree")
	if again := name("/cache/root-1/tree"); again != first {
		t.Errorf("the same inputs are named %s and %s", first, again)
	}
	if other := name("/cache/root-2/tree"); other == first {
		t.Error("another root tree has the same name")
	}

	write("ID=other\n")
	if other := name("/cache/root-1/tree"); other == first {
		t.Error("another os-release has the same name")
	}
}
