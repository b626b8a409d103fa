package drift

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/inotify"
	"github.com/loam-os/loam/hint"
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

	w = New()
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
	mustReport(t, w, "still too few, so all are looked at")

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

// TestALimitOfInstancesPasses begins while the kernel gives no instance.
func TestALimitOfInstancesPasses(t *testing.T) {
	w, root, _ := scarce(t)
	w.open = func() (*os.File, error) {
		return nil, fmt.Errorf("inotify_init1: %w", unix.EMFILE)
	}

	err := w.Set(root, scarcePaths)
	if !errors.Is(err, unix.EMFILE) || !strings.Contains(hint.Line(err), "max_user_instances") {
		t.Fatalf("Set: %s", hint.Line(err))
	}
	mustReport(t, w, "no instance")
	w.again()
	mustReport(t, w, "still no instance, so all are looked at")

	w.open = inotify.Open
	w.again()
	mustReport(t, w, "what changed meanwhile is not known")
	if err := w.Err(); err != nil {
		t.Errorf("once there is an instance: %v", err)
	}

	const path = "/etc/a/x"
	if err := os.WriteFile(filepath.Join(root, path), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := <-w.Events(); !slices.Equal(got, []string{path}) {
		t.Errorf("events about %q, want %q", got, path)
	}
}

func TestAWatcherWithoutAnInstanceCloses(t *testing.T) {
	w, root, _ := scarce(t)
	w.open = func() (*os.File, error) { return nil, unix.EMFILE }
	if err := w.Set(root, scarcePaths); err == nil {
		t.Error("Set: no error")
	}
	for range 2 {
		if err := w.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	for range w.Events() {
	}
	if err := w.Set(root, scarcePaths); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Set on a closed watcher: %v", err)
	}
}
