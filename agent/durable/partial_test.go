package durable

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/test/files"
)

func TestPartialGoesOn(t *testing.T) {
	root := files.Root(t)
	var steps []string
	dir := New(root, func(s Step) error {
		steps = append(steps, s.String())
		return nil
	})
	write := func(text string, off int64) {
		t.Helper()
		p, err := dir.Partial("program", 6, 0o755)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if _, err := p.WriteAt([]byte(text), off); err != nil {
			t.Fatal(err)
		}
		if err := p.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	write("cd", 2)
	write("ab", 0)
	write("ef", 4)

	name := filepath.Join(root.Name(), "program")
	text, err := os.ReadFile(name)
	if err != nil || string(text) != "abcdef" {
		t.Errorf("content %q, %v", text, err)
	}
	if info, err := os.Stat(name); err != nil || info.Mode() != 0o755 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	want := []string{
		"create program", "write program",
		"append program", "sync program",
		"append program", "sync program",
		"append program", "sync program",
	}
	if diff := cmp.Diff(want, steps); diff != "" {
		t.Error(diff)
	}
}

func TestPartialCutsOffWhatIsTooMuch(t *testing.T) {
	root := files.Root(t)
	files.Write(t, filepath.Join(root.Name(), "program"), "abcdef")
	p, err := New(root, nil).Partial("program", 3, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	text, err := root.ReadFile("program")
	if err != nil || string(text) != "abc" {
		t.Errorf("content %q, %v", text, err)
	}
	if info, err := root.Stat("program"); err != nil || info.Mode() != 0o644 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestPartialRefusesWhatIsNoFile(t *testing.T) {
	for name, make := range map[string]func(*os.Root) error{
		"a directory": func(r *os.Root) error { return r.Mkdir("program", 0o755) },
		"a link":      func(r *os.Root) error { return r.Symlink("elsewhere", "program") },
	} {
		t.Run(name, func(t *testing.T) {
			root := files.Root(t)
			if err := make(root); err != nil {
				t.Fatal(err)
			}
			if p, err := New(root, nil).Partial("program", 3, fs.FileMode(0o644)); err == nil {
				p.Close()
				t.Error("it is opened")
			}
		})
	}
}
