package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/source"
)

// wider is an engine whose generations have files that change with each, a copy
// and one behind a link, and one that never does.
type wider struct{ *world }

func (w wider) Apply(ctx context.Context, r apply.Request) (generation.Manifest, error) {
	m, err := w.world.Apply(ctx, r)
	m.Entries = []generation.Entry{
		{Path: "/etc/link", Kind: generation.KindFile, Digest: m.Digest},
		{Path: "/var/lib/changes", Kind: generation.KindFile, Digest: m.Digest},
		{Path: "/var/lib/stays", Kind: generation.KindFile, Digest: "same"},
	}
	w.current = m
	return m, err
}

func TestAChangeLooksOnlyAtThePathsThatItChanged(t *testing.T) {
	w := newWorld()
	w.text = "one"
	runEngine(t, w, wider{w}, func(settle func()) {
		if want := []string{"/etc/link", "/var/lib/changes", "/var/lib/stays"}; !slices.Equal(w.looked, want) {
			t.Errorf("the first generation: looked at %q, want %q", w.looked, want)
		}
		w.looked = nil
		w.says("two", settle)
		if want := []string{"/var/lib/changes"}; !slices.Equal(w.looked, want) {
			t.Errorf("the next: looked at %q, want %q", w.looked, want)
		}
	})
}

func TestAChangeLooksAtAllPathsOnceNothingIsWatched(t *testing.T) {
	w := newWorld()
	w.text = "one"
	runEngine(t, w, wider{w}, func(settle func()) {
		all := []string{"/etc/link", "/var/lib/changes", "/var/lib/stays"}
		w.looked = nil
		close(w.drift)
		settle()
		if !slices.Equal(w.looked, all) {
			t.Errorf("after the watch ended: looked at %q, want %q", w.looked, all)
		}
		for _, text := range []string{"two", "three"} {
			w.looked = nil
			w.says(text, settle)
			if !slices.Equal(w.looked, all) {
				t.Errorf("%s: looked at %q, want %q", text, w.looked, all)
			}
		}
	})
}

// TestAChangeLooksAtAllPathsWhileNotAllAreWatched: a watcher says so with the next
// paths that it reports, and goes on.
func TestAChangeLooksAtAllPathsWhileNotAllAreWatched(t *testing.T) {
	w := newWorld()
	w.text = "one"
	runEngine(t, w, wider{w}, func(settle func()) {
		all := []string{"/etc/link", "/var/lib/changes", "/var/lib/stays"}
		warnings := len(w.last().Warnings)
		w.unwatched = errors.New("too few watches")
		for range 2 {
			w.drift <- []string{"/etc/link"}
			settle()
		}
		got := w.last().Warnings
		if len(got) != warnings+1 || !strings.Contains(got[len(got)-1], "too few watches") {
			t.Errorf("warnings: %q", got)
		}

		w.unwatched, w.looked = nil, nil
		w.says("two", settle)
		if !slices.Equal(w.looked, all) {
			t.Errorf("the next change: looked at %q, want %q", w.looked, all)
		}
		w.looked = nil
		w.says("three", settle)
		if want := []string{"/var/lib/changes"}; !slices.Equal(w.looked, want) {
			t.Errorf("the one after it: looked at %q, want %q", w.looked, want)
		}
	})
}

// manyFiles is a document of n files.
func manyFiles(n int) []byte {
	var text bytes.Buffer
	text.WriteString("apiVersion: extensions.gardener.cloud/v1alpha1\nkind: OperatingSystemConfig\nspec:\n  files:\n")
	for i := range n {
		fmt.Fprintf(&text, "  - path: /etc/many/%03d\n    content: {inline: {data: %q}}\n", i, fmt.Sprint("file ", i))
	}
	return text.Bytes()
}

func TestTheSameTextIsNotDecodedAgain(t *testing.T) {
	image, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer image.Close()
	d, doc := Decoder{Image: image, Seen: &Seen{}}, source.Document{Name: "osc.yaml", Text: manyFiles(200)}
	first, err := d.Decode(t.Context(), doc)
	if err != nil {
		t.Fatal(err)
	}
	anew := testing.AllocsPerRun(3, func() {
		d.Seen = &Seen{}
		_, _ = d.Decode(t.Context(), doc)
	})
	again := testing.AllocsPerRun(3, func() { _, _ = d.Decode(t.Context(), doc) })
	if again > anew/4 {
		t.Errorf("%v allocations for the same text, %v for another", again, anew)
	}
	if same, err := d.Decode(t.Context(), doc); err != nil || same.Digest() != first.Digest() {
		t.Errorf("the same text is another configuration: %v", err)
	}

	doc.Text = manyFiles(201)
	if other, err := d.Decode(t.Context(), doc); err != nil || len(other.Files) != 201 {
		t.Errorf("another text: %d files, %v", len(other.Files), err)
	}
	doc.Text = []byte("kind: Something\n")
	for range 2 {
		if _, err := d.Decode(t.Context(), doc); err == nil {
			t.Error("what is wrong with a text was forgotten")
		}
	}
}

func TestTheImageIsAskedOnceForItsContainerd(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "etc/containerd/config.toml")
	if err := os.MkdirAll(filepath.Dir(config), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, []byte("version = 2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	image, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer image.Close()
	d, doc := Decoder{Image: image, Seen: &Seen{}}, source.Document{Name: "osc.yaml", Text: manyFiles(1)}
	if _, err := d.Decode(t.Context(), doc); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(config); err != nil {
		t.Fatal(err)
	}
	base, err := d.Seen.containerd(image)
	if err != nil || string(base.Config) != "version = 2\n" {
		t.Errorf("asked again: %q, %v", base.Config, err)
	}
}
