package rootfs

import (
	"os"
	"path/filepath"
	"testing"
)

// sample makes a small tree.
func sample(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, err := range []error{
		os.Chmod(dir, 0o755),
		os.MkdirAll(filepath.Join(dir, "usr/bin"), 0o755),
		os.WriteFile(filepath.Join(dir, "usr/bin/sh"), []byte("#!"), 0o755),
		os.Symlink("usr/bin", filepath.Join(dir, "bin")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}

	return dir
}

func TestDigest(t *testing.T) {
	tests := []struct {
		name   string
		change func(dir string) error
		same   bool
	}{
		{"nothing changed", func(string) error { return nil }, true},
		{"a time changed", func(dir string) error {
			info, err := os.Stat("/")
			if err != nil {
				return err
			}
			return os.Chtimes(filepath.Join(dir, "usr/bin/sh"), info.ModTime(), info.ModTime())
		}, true},
		{"content changed", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "usr/bin/sh"), []byte("##"), 0o755)
		}, false},
		{"a mode changed", func(dir string) error {
			return os.Chmod(filepath.Join(dir, "usr/bin/sh"), 0o700)
		}, false},
		{"a directory came", func(dir string) error {
			return os.Mkdir(filepath.Join(dir, "etc"), 0o755)
		}, false},
		{"a file was renamed", func(dir string) error {
			return os.Rename(filepath.Join(dir, "usr/bin/sh"), filepath.Join(dir, "usr/bin/ash"))
		}, false},
		{"a link points elsewhere", func(dir string) error {
			link := filepath.Join(dir, "bin")
			os.Remove(link)
			return os.Symlink("usr/sbin", link)
		}, false},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := sample(t)
			b := sample(t)
			if err := tt.change(b); err != nil {
				t.Fatal(err)
			}
			if same := digest(t, a) == digest(t, b); same != tt.same {
				t.Errorf("same digest: %v, want %v", same, tt.same)
			}
		})
	}
}

func digest(t *testing.T, dir string) string {
	t.Helper()
	d, err := Digest(dir)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDigestLeavesOut(t *testing.T) {
	dir := t.TempDir()
	digest := func() string {
		t.Helper()
		text, err := Digest(dir, "packages.lock")
		if err != nil {
			t.Fatal(err)
		}
		return text
	}

	before := digest()
	if err := os.WriteFile(filepath.Join(dir, "packages.lock"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if digest() != before {
		t.Error("a file that is left out changes the digest")
	}
	if err := os.WriteFile(filepath.Join(dir, "mkosi.conf"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if digest() == before {
		t.Error("a file that is not left out does not change the digest")
	}
}
