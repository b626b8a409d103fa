package apply_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/generation"
)

// block puts a directory that is not ours in the place of a path.
func block(t *testing.T, n node, name string) {
	t.Helper()
	if err := n.root.RemoveAll(name); err != nil {
		t.Fatal(err)
	}
	put(t, n, name+"/sub/x", "in the way")
}

func TestPathThatCannotBeRepaired(t *testing.T) {
	t.Run("a directory in its place", func(t *testing.T) {
		n, _ := fakeNode(t)
		if err := pathThatCannotBeRepaired(t, n, n.executor(t, nil), func() {
			block(t, n, "var/q/file")
		}); !errors.As(err, new(*generation.Error)) {
			t.Errorf("a change of the path: %v", err) // It can be seen beforehand.
		}
	})

	t.Run("a file system mounted on it", func(t *testing.T) {
		n, _ := fakeNode(t)
		mounted := false
		e := n.executor(t, func(s durable.Step) error {
			if mounted && s.Name == "var/q/file" {
				return &durable.Fault{Err: syscall.EBUSY}
			}
			return nil
		})

		block := func() { put(t, n, "var/q/file", "of the mount"); mounted = true }
		if err := pathThatCannotBeRepaired(t, n, e, block); !errors.Is(err, syscall.EBUSY) {
			t.Errorf("a change of the path: %v", err)
		}
	})
}

// pathThatCannotBeRepaired returns what a change of the path itself gave.
func pathThatCannotBeRepaired(
	t *testing.T, n node, e *apply.Executor, block func(),
) (refused error) {
	with := func(value, file string) []string {
		return []string{"/etc/a", value, "/var/q/file", file, "/var/q/other", "o"}
	}

	mustApply(t, e, filesOf(with("1", "x")...))
	accept(t, e)
	block()
	put(t, n, "var/q/other", "drift")

	if err := n.root.Remove("etc/a"); err != nil {
		t.Fatal(err)
	}

	did, err := e.Repair(t.Context(), []string{"/etc/a", "/var/q/file", "/var/q/other"}, nil)
	if err == nil || !strings.Contains(err.Error(), "/var/q/file") || apply.Transient(err) {
		t.Errorf("repair: %v", err)
	}
	if want := []string{"/etc/a", "/var/q/other"}; !slices.Equal(did, want) {
		t.Errorf("repaired %v, want %v", did, want)
	}

	// Another change is applied, completed and judged all the same.
	second := mustApply(t, e, filesOf(with("2", "x")...))
	for range 2 {
		if r, err := e.Resume(t.Context()); err != nil || r.Finished != second {
			t.Errorf("resume: %+v %v", r, err)
		}
	}

	accept(t, e)
	r, err := e.Resume(t.Context())
	if err != nil || r.Drift == nil || !strings.Contains(r.Drift.Error(), "/var/q/file") {
		t.Errorf("at the next start: %+v %v", r, err)
	}

	// A change of the path itself is impossible: it is refused, and the node
	// does not change.
	before := generations(t, e)
	_, refused = e.Apply(t.Context(), request(filesOf(with("3", "y")...)))
	if refused == nil || errors.Is(refused, apply.ErrUnfinished) || apply.Transient(refused) {
		t.Errorf("a change of the path: %v", refused)
	}

	diff := cmp.Diff(before, generations(t, e))
	if diff != "" || !absent(n, "var/lib/loam/journal.json") {
		t.Errorf("it left something (-before +after):\n%s", diff)
	}

	mustApply(t, e, filesOf("/etc/a", "4"))
	accept(t, e)

	if absent(n, "var/q/file") {
		t.Error("what is not ours is gone")
	}

	return refused
}

// TestWayBackGoesRoundAPathThatCannotBePlaced, because a revert must end.
func TestWayBackGoesRoundAPathThatCannotBePlaced(t *testing.T) {
	n, _ := fakeNode(t)
	e := n.executor(t, nil)
	d := withUnit("1", sleeper)
	d.Files = append(d.Files, filesOf("/var/q/file", "1").Files...)
	good := mustApply(t, e, d)
	accept(t, e)
	d = withUnit("2", crasher)
	d.Files = append(d.Files, filesOf("/var/q/file", "2").Files...)

	if _, err := e.Apply(t.Context(), request(d)); err == nil {
		t.Fatal("a unit that fails started")
	}

	block(t, n, "var/q/file")
	goOn(t, e)
	isAt(t, n, e, good, "1")

	if r, err := e.Resume(t.Context()); err != nil || r.Drift == nil {
		t.Errorf("at the next start: %+v %v", r, err)
	}
}

func TestObstacleIsRefusedBeforeAnyStep(t *testing.T) {
	tests := []struct {
		name string
		make func(t *testing.T, n node)
	}{
		{"a directory in the file's way", func(t *testing.T, n node) { block(t, n, "var/q/file") }},
		{"a file where a directory is to be", func(t *testing.T, n node) {
			put(t, n, "var/q", "x")
		}},
		{"a link out of /var", func(t *testing.T, n node) { linkTo(t, n, "../../etc", "var/q") }},
		{"a link into Loam's own state", func(t *testing.T, n node) {
			linkTo(t, n, "lib/loam", "var/q")
		}},
		{"an absolute link", func(t *testing.T, n node) { linkTo(t, n, "/etc", "var/q") }},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n, _ := fakeNode(t)
			steps := 0
			e := n.executor(t, func(durable.Step) error { steps++; return nil })
			mustApply(t, e, filesOf("/etc/a", "1"))
			accept(t, e)
			tt.make(t, n)
			steps = 0
			_, err := e.Apply(t.Context(), request(filesOf("/etc/a", "2", "/var/q/file", "x")))
			var refused *generation.Error
			if !errors.As(err, &refused) || !strings.HasPrefix(refused.Path, "/var/q") ||
				refused.Hint == "" || apply.Transient(err) {
				t.Errorf("%v", err)
			}

			if steps > 0 || !absent(n, "etc/file") || !absent(n, "var/lib/loam/file") {
				t.Errorf("%d durable steps", steps)
			}

			if _, err := e.Plan(t.Context(), filesOf("/var/q/file", "x"),
				"test"); !errors.As(err, &refused) {
				t.Errorf("the plan: %v", err)
			}
		})
	}
}

func linkTo(t *testing.T, n node, target, name string) {
	t.Helper()
	if err := os.Symlink(target, filepath.Join(n.root.Name(), name)); err != nil {
		t.Fatal(err)
	}
}

func TestOwnerOfARealFileIsDrift(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to give a file away")
	}

	for name, of := range map[string][2]int{"another user": {1, -1}, "another group": {-1, 1}} {
		t.Run(name, func(t *testing.T) {
			n, _ := fakeNode(t)
			e := n.executor(t, nil)
			mustApply(t, e, filesOf("/var/q/file", "x"))
			accept(t, e)

			if err := n.root.Chown("var/q/file", of[0], of[1]); err != nil {
				t.Fatal(err)
			}

			if did, err := e.Repair(t.Context(), []string{"/var/q/file"}, nil); err != nil ||
				!slices.Equal(did, []string{"/var/q/file"}) {
				t.Errorf("repaired %v %v", did, err)
			}

			if did, err := e.Repair(t.Context(), nil, nil); err != nil || len(did) > 0 {
				t.Errorf("and again: %v %v", did, err)
			}
		})
	}
}
