package rootfs

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/image/tools"
	"github.com/loam-os/loam/test/judge"
)

// toolsTree is the tree that LOAM_TOOLS_TREE names, which make sets.
func toolsTree(t *testing.T) tools.Tree {
	t.Helper()
	return tools.Tree{Dir: judge.Dir(t, "LOAM_TOOLS_TREE")}
}

func TestParents(t *testing.T) {
	got := parents([]File{
		{Path: "usr/lib/os-release"},
		{Path: "usr/bin/loam"},
		{Path: "usr/bin/x"},
	})
	want := []string{"./", "usr/", "usr/bin/", "usr/lib/"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestImage judges by fsck.erofs: what it extracts must be the tree with the
// files on top, and a second image must be the same to the byte.
func TestImage(t *testing.T) {
	tree := toolsTree(t)
	entry := t.TempDir()
	if err := os.Rename(sample(t), filepath.Join(entry, "tree")); err != nil {
		t.Fatal(err)
	}

	binary := filepath.Join(t.TempDir(), "loam")
	if err := os.WriteFile(binary, bytes.Repeat([]byte("loam"), 1<<18), 0o600); err != nil {
		t.Fatal(err)
	}

	first := imageOf(t, tree, entry, binary)
	if !bytes.Equal(first, imageOf(t, tree, entry, binary)) {
		t.Error("two images of the same tree differ")
	}

	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "root.erofs"), first, 0o644); err != nil {
		t.Fatal(err)
	}

	cmd := tree.Command(t.Context(), []string{dir}, "fsck.erofs", "--preserve",
		"--extract="+filepath.Join(dir, "out"), filepath.Join(dir, "root.erofs"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("fsck.erofs: %v\n%s", err, out)
	}

	want := filepath.Join(entry, "tree")
	if err := copyFile(filepath.Join(want, "usr/bin/loam"), binary); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(want, "usr/bin/loam"), 0o755); err != nil {
		t.Fatal(err)
	}
	if digest(t, want) != digest(t, filepath.Join(dir, "out")) {
		t.Error("the image does not hold the tree and the file")
	}
}

// imageOf makes an image with an empty cache and reads it.
func imageOf(t *testing.T, tree tools.Tree, entry, binary string) []byte {
	t.Helper()
	dst := filepath.Join(t.TempDir(), "root.erofs")
	err := Image(t.Context(), tree,
		Root{Dir: filepath.Join(entry, "tree"), entry: entry}, ImageParams{
			Params: Params{Cache: t.TempDir(), SourceDateEpoch: 1735689600, Log: io.Discard},
			Files:  []File{{Path: "usr/bin/loam", Mode: 0o755, Source: binary}},
			UUID:   "6c6f616d-0000-4000-8000-000000000000",
		}, dst)
	if err != nil {
		t.Fatal(err)
	}

	image, err := os.ReadFile(dst)
	if err != nil {
		t.Fatal(err)
	}

	return image
}
