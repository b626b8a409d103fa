package decode

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/content"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/osc"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/test/files"
)

// TestLookingForImagesIsNoReasonToLookAgain: what Prepare writes is not
// watched, and is written once.
func TestLookingForImagesIsNoReasonToLookAgain(t *testing.T) {
	root := files.Root(t)

	i := NewImages(durable.New(root, nil), ImagePolicy{}, nil)
	for _, name := range i.WatchedFiles([]osc.Reference{{Image: "a.b/c:v1", Path: "/d"}}) {
		if strings.HasPrefix(name, PreparedHosts) {
			t.Errorf("%s is watched", name)
		}
	}

	const name = PreparedHosts + "/a.b/hosts.toml"
	mirrors := []config.File{{Path: name, Mode: 0o644, Content: config.Text("one")}}
	var before os.FileInfo
	for range 2 {
		if err := i.Prepare(mirrors, nil); err != nil {
			t.Fatal(err)
		}
		info, err := root.Stat(name[1:])
		if err != nil {
			t.Fatal(err)
		}
		if before != nil && !os.SameFile(before, info) {
			t.Error("the same mirrors were written again")
		}
		before = info
	}

	if err := i.Prepare(nil, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := root.Stat(name[1:]); err == nil {
		t.Error("mirrors that no configuration has are still there")
	}
}

// A tag is for a registry to resolve; a directory of the node has what its
// operator put there.
func TestTagsAreRefused(t *testing.T) {
	root := files.Root(t)
	down := func(context.Context, string) error { return errors.New("containerd was started") }
	pulled := NewImages(durable.New(root, nil), ImagePolicy{DigestsOnly: true}, down)

	dir := t.TempDir()
	if err := os.MkdirAll(dir+"/images/a.b/c:v1", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/images/a.b/c:v1/d", nil, 0o644); err != nil {
		t.Fatal(err)
	}

	both := Fallback{First: content.Directory{Path: dir}, Second: pulled}
	if _, err := both.Image(t.Context(), "a.b/c:v1", "/d"); err != nil {
		t.Errorf("of the directory: %v", err)
	}
	for _, ref := range []string{"a.b/c:v2", "a.b/c"} {
		if _, err := both.Image(t.Context(), ref, "/d"); fault.Of(err) != fault.DigestMissing {
			t.Errorf("%s: %v", ref, err)
		}
	}

	digest := "a.b/c@sha256:" + strings.Repeat("0", 64)
	if _, err := both.Image(t.Context(), digest, "/d"); fault.Of(err) == fault.DigestMissing ||
		err == nil {
		t.Errorf("%s: %v", digest, err)
	}
}

// Keys that cannot be read must not mean that every image is taken.
func TestWithUnreadableKeysThereAreNoImages(t *testing.T) {
	i := NewImages(durable.New(files.Root(t), nil), ImagePolicy{Keys: []string{"abc"}}, nil)
	if _, err := i.Image(t.Context(), "a.b/c:v1", "/d"); err == nil ||
		!strings.HasPrefix(err.Error(), "key 1: ") {
		t.Error(err)
	}
}
