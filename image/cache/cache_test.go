package cache

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

func TestEnsure(t *testing.T) {
	dir := t.TempDir()
	var builds atomic.Int32
	build := func(tmp string) error {
		builds.Add(1)
		return os.WriteFile(filepath.Join(tmp, "f"), []byte("x"), 0o644)
	}

	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			if _, err := Ensure(t.Context(), dir, "entry", build); err != nil {
				t.Error(err)
			}
		})
	}

	callers.Wait()
	if builds.Load() != 1 {
		t.Errorf("four callers made %d builds, not one", builds.Load())
	}
	if _, err := os.Stat(filepath.Join(dir, "entry/f")); err != nil {
		t.Error(err)
	}
}

func TestFailedBuildLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	boom := errors.New("boom")
	_, err := Ensure(t.Context(), dir, "entry", func(tmp string) error {
		os.WriteFile(filepath.Join(tmp, "half"), nil, 0o644)
		return boom
	})
	if !errors.Is(err, boom) {
		t.Errorf("error %v, want %v", err, boom)
	}

	for _, name := range []string{"entry", "entry.partial"} {
		if exists(filepath.Join(dir, name)) {
			t.Errorf("%s is left", name)
		}
	}
}

func TestRestOfAKilledBuildIsRemoved(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "entry.partial/old"), 0o755); err != nil {
		t.Fatal(err)
	}

	path, err := Ensure(t.Context(), dir, "entry", func(tmp string) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if exists(filepath.Join(path, "old")) {
		t.Error("the new entry holds what the killed build left")
	}
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	dir := t.TempDir()
	unlock, err := lock(t.Context(), filepath.Join(dir, "entry.lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()

	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	if _, err := Ensure(ctx, dir, "entry", func(string) error {
		return nil
	}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
}
