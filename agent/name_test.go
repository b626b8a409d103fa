package agent

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/loam-os/loam/test/files"
)

func TestANodeFindsItsOwnName(t *testing.T) {
	n := unidentified(t)
	hosts := filepath.Join(n.Root, "etc/hosts")
	files.Write(t, hosts, "127.0.0.1 localhost\n127.0.1.1 old\n")
	if err := resolveName(n.root, "node-1"); err != nil {
		t.Error(err)
	}
	want := "127.0.0.1 localhost\n127.0.1.1\tnode-1\n"
	if text, err := os.ReadFile(hosts); err != nil || string(text) != want {
		t.Errorf("hosts %q, %v, want %q", text, err, want)
	}

	// A configuration has it: its file is a link into the store.
	own := filepath.Join(n.Root, "store")
	if err := os.Rename(hosts, own); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../store", hosts); err != nil {
		t.Fatal(err)
	}
	if err := resolveName(n.root, "node-2"); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(own); err != nil || string(text) != want {
		t.Errorf("hosts of the configuration: %q, %v", text, err)
	}
	if target, err := os.Readlink(hosts); err != nil || target != "../store" {
		t.Errorf("hosts is %q, %v", target, err)
	}
}
