package decode

import (
	"context"
	"errors"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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

	i := NewImages(durable.New(root, nil), PreparedHosts, ImagePolicy{}, nil)
	for _, name := range i.WatchedFiles([]osc.Reference{{Image: "a.b/c:v1", Path: "/d"}}) {
		if strings.HasPrefix(name, PreparedHosts) {
			t.Errorf("%s is watched", name)
		}
	}

	const name = PreparedHosts + "/a.b/hosts.toml"
	one := mirrored(t, `{upstream: a.b, hosts: [{url: "http://mirror.b"}]}`)
	var before os.FileInfo
	for range 2 {
		if err := i.Prepare(t.Context(), one, osc.Env{}); err != nil {
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

	if err := i.Prepare(t.Context(), osc.OperatingSystemConfig{}, osc.Env{}); err != nil {
		t.Fatal(err)
	}
	if _, err := root.Stat(name[1:]); err == nil {
		t.Error("mirrors that no configuration has are still there")
	}
}

// A cache in the cluster does not answer before the node is in it: nothing is
// asked of it until it does, and then its hosts.toml is written once.
func TestAMirrorWithAProbeIsKnownFromWhenItAnswers(t *testing.T) {
	root := files.Root(t)
	i := NewImages(durable.New(root, nil), PreparedHosts, ImagePolicy{}, nil)
	var asked []string
	down := errors.New("down")
	i.reach = func(_ context.Context, p config.Probe) error {
		asked = append(asked, p.Path)
		return down
	}

	const (
		cached = PreparedHosts + "/a.b/hosts.toml"
		plain  = PreparedHosts + "/c.d/hosts.toml"
	)
	both := mirrored(t, `{upstream: a.b, readinessProbe: true,
		hosts: [{url: "https://cache.b", caCerts: [/etc/ca.crt]}]}`,
		`{upstream: c.d, hosts: [{url: "http://mirror.d"}]}`)
	for _, step := range []struct {
		name string
		err  error
		has  bool
		want []string
	}{
		{name: "down", err: down, want: []string{cached}},
		{name: "down again", err: down, want: []string{cached}},
		{name: "it answers", has: true, want: []string{cached}},
		{name: "it is down again, but has answered", err: down, has: true},
	} {
		asked = nil
		down = step.err
		if err := i.Prepare(t.Context(), both, osc.Env{}); err != nil {
			t.Fatal(err)
		}

		if diff := cmp.Diff(step.want, asked); diff != "" {
			t.Errorf("%s: probes (-want +got):\n%s", step.name, diff)
		}
		// A directory alone would hide the hosts.toml that is in place.
		for _, name := range []string{cached, path.Dir(cached)} {
			if _, err := root.Stat(name[1:]); (err == nil) != step.has {
				t.Errorf("%s: %s of the cache: %v", step.name, name, err)
			}
		}
		if _, err := root.Stat(plain[1:]); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
	}
}

// mirrored is a document with registries.
func mirrored(t *testing.T, registries ...string) osc.OperatingSystemConfig {
	t.Helper()
	parsed, err := osc.Decode("c", []byte(`apiVersion: extensions.gardener.cloud/v1alpha1
kind: OperatingSystemConfig
spec:
  criConfig:
    name: containerd
    containerd: {sandboxImage: "a/pause:1", registries: [`+strings.Join(registries, ", ")+`]}
  files:
  - path: /etc/ca.crt
    content: {inline: {data: CA}}
`))
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// A tag is for a registry to resolve; a directory of the node has what its
// operator put there.
func TestTagsAreRefused(t *testing.T) {
	root := files.Root(t)
	down := func(context.Context, string) error { return errors.New("containerd was started") }
	pulled := NewImages(durable.New(root, nil), PreparedHosts, ImagePolicy{DigestsOnly: true}, down)

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
	i := NewImages(durable.New(files.Root(t), nil), PreparedHosts,
		ImagePolicy{Keys: []string{"abc"}}, nil)
	if _, err := i.Image(t.Context(), "a.b/c:v1", "/d"); err == nil ||
		!strings.HasPrefix(err.Error(), "key 1: ") {
		t.Error(err)
	}
}
