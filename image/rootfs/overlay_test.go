package rootfs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOverlay(t *testing.T) {
	tree, from := t.TempDir(), t.TempDir()
	program := filepath.Join(from, "usr/bin/runc")
	if err := os.MkdirAll(filepath.Dir(program), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, []byte("runc"), 0o755); err != nil {
		t.Fatal(err)
	}

	if err := overlay(tree, from); err != nil {
		t.Fatal(err)
	}

	copied := filepath.Join(tree, "usr/bin/runc")
	info, err := os.Stat(copied)
	if err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v, want a program", info, err)
	}

	if text, err := os.ReadFile(copied); string(text) != "runc" {
		t.Errorf("content %q, %v", text, err)
	}

	// A package that has the file, too, would leave two answers to what runs.
	if err := overlay(tree, from); err == nil || !strings.Contains(err.Error(), "of a package") {
		t.Errorf("a file that is there: %v", err)
	}
}

func TestNoOverlay(t *testing.T) {
	if err := overlay(t.TempDir(), ""); err != nil {
		t.Error(err)
	}
}
