package build

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/image/initramfs"
)

func TestFirmwareOfTheInitramfs(t *testing.T) {
	tree := t.TempDir()
	if entries, err := firmwareFiles(tree); err != nil || entries != nil {
		t.Errorf("a tree without any: %v, %v", entries, err)
	}

	dir := filepath.Join(tree, "usr/lib/firmware")
	err := errors.Join(os.MkdirAll(filepath.Join(dir, "intel-ucode"), 0o755),
		os.MkdirAll(filepath.Join(dir, "nic/a"), 0o755),
		os.WriteFile(filepath.Join(dir, "intel-ucode/06-55-04"), []byte("microcode"), 0o644),
		os.WriteFile(filepath.Join(dir, "nic/a/1.fw"), []byte("firmware"), 0o644),
		os.Symlink("1.fw", filepath.Join(dir, "nic/a/fw")))
	if err != nil {
		t.Fatal(err)
	}

	entries, err := firmwareFiles(tree)
	want := []initramfs.Entry{
		{Path: "lib/firmware/nic/a/1.fw", Mode: 0o444, Data: []byte("firmware")},
		{Path: "lib/firmware/nic/a/fw", Mode: 0o444 | fs.ModeSymlink, Target: "1.fw"},
	}
	if diff := cmp.Diff(want, entries); diff != "" || err != nil {
		t.Error(diff, err)
	}
}
