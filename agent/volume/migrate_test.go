package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/loam-os/loam/agent/durable"
)

var errCut = errors.New("power cut")

// copyTree is what a node does, with a power cut after some of it if cut is
// true.
func copyTree(cut bool) func(ctx context.Context, from, to string) error {
	return func(ctx context.Context, from, to string) error {
		if cut {
			_ = os.WriteFile(filepath.Join(to, "config"), []byte("ha"), 0o600)
			return errCut
		}
		return exec.CommandContext(ctx, "cp", "--archive", "--one-file-system", from+"/.", to).Run()
	}
}

// kept makes a directory of what a kubelet has kept.
func kept(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	err := errors.Join(
		os.Chmod(dir, 0o750), os.MkdirAll(filepath.Join(dir, "pki/old"), 0o700),
		os.Mkdir(filepath.Join(dir, "lost+found"), 0o700),
		os.WriteFile(filepath.Join(dir, "config"), []byte("half and half"), 0o600),
		os.WriteFile(filepath.Join(dir, "pki/key"), []byte("secret"), 0o400),
		os.Symlink("key", filepath.Join(dir, "pki/current")), os.Link(filepath.Join(dir, "pki/key"),
			filepath.Join(dir, "pki/old/key")),
	)
	if err != nil {
		t.Fatal(err)
	}

	return dir
}

// holds fails unless the volume at dir has all that kept has made, and nothing
// else.
func holds(t *testing.T, dir string) {
	t.Helper()
	config, err := os.ReadFile(filepath.Join(dir, "config"))
	if err != nil || string(config) != "half and half" {
		t.Fatalf("config: %q, %v", config, err)
	}

	link, err := os.Readlink(filepath.Join(dir, "pki/current"))
	if err != nil || link != "key" {
		t.Errorf("link: %q, %v", link, err)
	}

	one, err1 := os.Stat(filepath.Join(dir, "pki/key"))
	other, err2 := os.Stat(filepath.Join(dir, "pki/old/key"))
	if err := errors.Join(err1, err2); err != nil || !os.SameFile(one, other) ||
		one.Mode() != 0o400 {
		t.Errorf("two names of one file: %v", err)
	}

	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o750 {
		t.Errorf("the directory itself: %v, %v", info, err)
	}

	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 {
		t.Errorf("entries: %v, %v", entries, err)
	}
}

// TestACarryThatIsCutOffGoesOn: before every step, and in the middle of the
// copy.
func TestACarryThatIsCutOffGoesOn(t *testing.T) {
	from := kept(t)
	for cut := 0; ; cut++ {
		to := t.TempDir()
		if err := os.Mkdir(filepath.Join(to, "lost+found"), 0o700); err != nil {
			t.Fatal(err)
		}

		steps := 0
		_, err := migrate(t.Context(), from, to, copyTree(cut == 0), func(s durable.Step) error {
			steps++
			if steps == cut {
				return fmt.Errorf("%w before %v", errCut, s)
			}
			return nil
		})

		complete := err == nil
		if !complete && !errors.Is(err, errCut) {
			t.Fatalf("cut %d: %v", cut, err)
		}

		if _, again := migrate(t.Context(), from, to, copyTree(false), nil); again != nil {
			t.Fatalf("after %v: %v", err, again)
		}

		holds(t, to)
		if complete {
			if steps < 8 {
				t.Errorf("only %d steps", steps)
			}
			return
		}
	}
}

func TestAVolumeOfAnotherLifeStaysAsItIs(t *testing.T) {
	from := kept(t)
	to := t.TempDir()
	if err := os.WriteFile(filepath.Join(to, "config"), []byte("older"), 0o600); err != nil {
		t.Fatal(err)
	}
	if all, err := migrate(t.Context(), from, to, copyTree(false), nil); err != nil || all {
		t.Fatal(all, err)
	}

	text, err := os.ReadFile(filepath.Join(to, "config"))
	if err != nil || string(text) != "older" {
		t.Errorf("config: %q, %v", text, err)
	}

	if entries, _ := os.ReadDir(to); len(entries) != 1 {
		t.Errorf("entries: %v", entries)
	}
}

func TestNothingIsCarriedFromWhereNothingIs(t *testing.T) {
	for _, from := range []string{t.TempDir(), filepath.Join(t.TempDir(), "missing")} {
		to := t.TempDir()
		if _, err := migrate(t.Context(), from, to, copyTree(true), nil); err != nil {
			t.Errorf("%s: %v", from, err)
		}
		if entries, _ := os.ReadDir(to); len(entries) != 0 {
			t.Errorf("entries: %v", entries)
		}
	}
}
