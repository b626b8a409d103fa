package loop

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/generation"
)

// wider is an engine whose generations have files that change with each, a copy
// and one behind a link, and a third that never changes.
type wider struct{ *fakeNode }

func (w wider) Apply(ctx context.Context, r apply.Request) (generation.Manifest, error) {
	m, err := w.fakeNode.Apply(ctx, r)
	m.Entries = []generation.Entry{
		{Path: "/etc/link", Kind: generation.KindFile, Digest: m.Digest},
		{Path: "/var/lib/changes", Kind: generation.KindFile, Digest: m.Digest},
		{Path: "/var/lib/stays", Kind: generation.KindFile, Digest: "same"},
	}
	w.mu.Lock()
	defer w.mu.Unlock()

	w.current = m
	return m, err
}

func TestAChangeLooksOnlyAtThePathsThatItChanged(t *testing.T) {
	w := newFakeNode()
	w.text = "one"
	runEngine(t, w, wider{w}, func(wait func()) {
		want := []string{"/etc/link", "/var/lib/changes", "/var/lib/stays"}
		if !slices.Equal(w.looked, want) {
			t.Errorf("the first generation: looked at %q, want %q", w.looked, want)
		}
		w.looked = nil
		w.says("two", wait)
		if want := []string{"/var/lib/changes"}; !slices.Equal(w.looked, want) {
			t.Errorf("the next: looked at %q, want %q", w.looked, want)
		}
	})
}

func TestAChangeLooksAtAllPathsOnceNothingIsWatched(t *testing.T) {
	w := newFakeNode()
	w.text = "one"
	runEngine(t, w, wider{w}, func(wait func()) {
		all := []string{"/etc/link", "/var/lib/changes", "/var/lib/stays"}
		w.looked = nil
		close(w.drift)
		wait()
		if !slices.Equal(w.looked, all) {
			t.Errorf("after the watch ended: looked at %q, want %q", w.looked, all)
		}

		for _, text := range []string{"two", "three"} {
			w.looked = nil
			w.says(text, wait)
			if !slices.Equal(w.looked, all) {
				t.Errorf("%s: looked at %q, want %q", text, w.looked, all)
			}
		}
	})
}

// TestAChangeLooksAtAllPathsWhileNotAllAreWatched: a watcher says so with the
// next paths that it reports, and goes on.
func TestAChangeLooksAtAllPathsWhileNotAllAreWatched(t *testing.T) {
	w := newFakeNode()
	w.text = "one"
	runEngine(t, w, wider{w}, func(wait func()) {
		all := []string{"/etc/link", "/var/lib/changes", "/var/lib/stays"}
		warnings := len(w.last().Warnings)
		w.unwatched = errors.New("too few watches")
		for range 2 {
			w.drift <- []string{"/etc/link"}
			wait()
		}
		got := w.last().Warnings
		if len(got) != warnings+1 || !strings.Contains(got[len(got)-1], "too few watches") {
			t.Errorf("warnings: %q", got)
		}

		w.unwatched, w.looked = nil, nil
		w.says("two", wait)
		if !slices.Equal(w.looked, all) {
			t.Errorf("the next change: looked at %q, want %q", w.looked, all)
		}
		w.looked = nil
		w.says("three", wait)
		if want := []string{"/var/lib/changes"}; !slices.Equal(w.looked, want) {
			t.Errorf("the one after it: looked at %q, want %q", w.looked, want)
		}
	})
}
