package drift

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// scarce returns a Watcher on a kernel that has no more watches while none is
// true.
func scarce(t *testing.T) (w *Watcher, root string, none *atomic.Bool) {
	t.Helper()
	root = t.TempDir()
	none = &atomic.Bool{}

	for _, dir := range []string{"etc/a", "etc/b"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}

	w, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})

	w.add = func(fd int, name string, mask uint32) (int, error) {
		if none.Load() {
			return 0, unix.ENOSPC
		}
		return unix.InotifyAddWatch(fd, name, mask)
	}

	return w, root, none
}

var scarcePaths = []string{"/etc/a/x", "/etc/b/y"}

// mustReport fails the test unless the next event is about all paths.
func mustReport(t *testing.T, w *Watcher, when string) {
	t.Helper()
	if got, open := <-w.Events(); !open || !slices.Equal(got, scarcePaths) {
		t.Fatalf("%s: events about %q, open %v", when, got, open)
	}
}

func TestALimitOfWatchesPasses(t *testing.T) {
	w, root, none := scarce(t)
	none.Store(true)

	first := w.Set(root, scarcePaths)
	if !errors.Is(first, unix.ENOSPC) || !errors.Is(w.Err(), unix.ENOSPC) {
		t.Fatalf("Set: %v, then %v", first, w.Err())
	}

	mustReport(t, w, "too few watches")
	w.again()

	if err := w.Err(); err == nil || err.Error() != first.Error() {
		t.Errorf("tried again: %v, and at first %v", err, first)
	}

	none.Store(false)
	w.again()

	if err := w.Err(); err != nil {
		t.Errorf("once there are watches: %v", err)
	}

	mustReport(t, w, "what changed meanwhile is not known")
}

func TestALimitOfWatchesDoesNotEndAWatcher(t *testing.T) {
	w, root, none := scarce(t)
	if err := w.Set(root, scarcePaths); err != nil {
		t.Fatal(err)
	}

	none.Store(true)
	if err := os.Rename(filepath.Join(root, "etc"), filepath.Join(root, "old")); err != nil {
		t.Fatal(err)
	}

	mustReport(t, w, "a directory went that cannot be watched")
	if err := w.Err(); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("without watches: %v", err)
	}

	none.Store(false)
	if err := os.Rename(filepath.Join(root, "old"), filepath.Join(root, "etc")); err != nil {
		t.Fatal(err)
	}
	if err := w.Set(root, scarcePaths); err != nil || w.Err() != nil {
		t.Errorf("once there are watches: %v, then %v", err, w.Err())
	}

	mustReport(t, w, "another set, after a time without watches")
}
