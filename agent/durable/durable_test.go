package durable_test

import (
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/durable"
)

var errPower = errors.New("power cut")

func open(t *testing.T) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

func TestStepsOfAWrite(t *testing.T) {
	var steps []string
	root := open(t)
	dir := durable.New(root, func(step string) error { steps = append(steps, step); return nil })
	for range 2 {
		if _, err := dir.WriteFile("a", []byte("one"), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	// The second write has nothing to do.
	want := []string{"create .ca978112ca1bbdca.loam-new", "rename a", "sync directory ."}
	if diff := cmp.Diff(want, steps); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	info, err := root.Stat("a")
	if err != nil || info.Mode() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// TestCut stops a rewrite before each step: the file has the old or the new
// content, and a later write succeeds.
func TestCut(t *testing.T) {
	for cut := range 3 {
		root := open(t)
		if _, err := durable.New(root, nil).WriteFile("a", []byte("old"), 0o644); err != nil {
			t.Fatal(err)
		}
		left := cut
		dir := durable.New(root, func(string) error {
			if left--; left < 0 {
				return errPower
			}
			return nil
		})
		if _, err := dir.WriteFile("a", []byte("new"), 0o600); !errors.Is(err, errPower) {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		got, err := root.ReadFile("a")
		if want := []string{"old", "old", "new"}[cut]; err != nil || string(got) != want {
			t.Errorf("cut at %d: %q, %v, want %q", cut, got, err, want)
		}
		if did, err := durable.New(root, nil).WriteFile("a", []byte("new"), 0o600); err != nil || did != (cut < 2) {
			t.Errorf("write after a cut at %d: %v, %v", cut, did, err)
		}
	}
}

func TestMkdirAllThroughALinkThatLeadsNowhereYet(t *testing.T) {
	root := open(t)
	if err := root.Symlink("var/opt", "opt"); err != nil {
		t.Fatal(err)
	}
	made, err := durable.New(root, nil).MkdirAll("opt/bin")
	if err != nil || !slices.Contains(made, "opt/bin") {
		t.Fatalf("made %v, %v", made, err)
	}
	if info, err := root.Stat("var/opt/bin"); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestRefuses(t *testing.T) {
	root := open(t)
	dir := durable.New(root, nil)
	if _, err := dir.MkdirAll("a/b"); err != nil {
		t.Fatal(err)
	}
	if _, err := dir.WriteFile("a", nil, 0o644); err == nil {
		t.Error("a directory was replaced by a file")
	}
	if _, err := dir.WriteFile("../a", nil, 0o644); err == nil {
		t.Error("a file outside of the root was written")
	}
	if err := dir.Remove("absent"); err != nil {
		t.Errorf("remove of what is not there: %v", err)
	}
	if names, _ := os.ReadDir(root.Name()); len(names) != 1 {
		t.Errorf("temporary files are left: %v", names)
	}
}
