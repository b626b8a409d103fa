// Package files writes and lists the files of a test.
package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// Dir returns an empty directory for the small files of a test. It is in memory,
// where there is such a file system: a disk takes most of the time of a test that
// writes durably, and no test cuts its power.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "loam-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// Root returns an empty root directory for a test, as Dir does. Its path is
// root.Name().
func Root(t testing.TB) *os.Root {
	t.Helper()
	return open(t, Dir(t))
}

// RootOnDisk is Root for large files.
func RootOnDisk(t testing.TB) *os.Root {
	t.Helper()
	return open(t, t.TempDir())
}

func open(t testing.TB, dir string) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

// Write writes a file that only its owner reads, and makes its directory.
func Write(t testing.TB, name, text string) {
	t.Helper()
	err := errors.Join(
		os.MkdirAll(filepath.Dir(name), 0o755),
		os.WriteFile(name, []byte(text), 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
}

// Names returns the names of everything beneath dir, relative to it and sorted.
func Names(t testing.TB, dir string) []string {
	t.Helper()
	var names []string
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, _ fs.DirEntry, err error) error {
		if name != "." {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	return names
}

// Follow returns where a name leads beneath the directory root for a program whose
// root directory it is: links may be absolute.
func Follow(root, name string) (string, error) {
	done, rest := "", strings.Split(strings.Trim(name, "/"), "/")
	for links := 0; len(rest) > 0; {
		next := path.Join(done, rest[0])
		rest = rest[1:]
		target, err := os.Readlink(path.Join(root, next))
		if err != nil {
			done = next
			continue
		}
		if links++; links > 40 {
			return "", fmt.Errorf("follow %s: too many links", name)
		}
		if path.IsAbs(target) {
			done = ""
		}
		rest = append(strings.Split(strings.Trim(target, "/"), "/"), rest...)
	}

	return done, nil
}
