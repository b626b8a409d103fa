package durable_test

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/durable"
)

// TestAFIFOIsNotWaitedFor that a pod has put in the place of a file.
func TestAFIFOIsNotWaitedFor(t *testing.T) {
	root := open(t)
	if err := unix.Mkfifo(root.Name()+"/fifo", 0o644); err != nil {
		t.Fatal(err)
	}
	text, err := fs.ReadFile(durable.New(root, nil).FS(), "fifo")
	if err != nil || len(text) > 0 {
		t.Errorf("%q, %v", text, err)
	}
}

// TestFS is a file system as io/fs has them.
func TestFS(t *testing.T) {
	root := open(t)
	d := durable.New(root, nil)
	if err := d.MkdirAll("a/b"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.WriteFile("a/b/c", []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := fstest.TestFS(d.FS(), "a/b/c"); err != nil {
		t.Error(err)
	}
}
