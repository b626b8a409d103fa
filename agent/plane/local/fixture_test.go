package local

import (
	"context"
	"encoding/json"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/api"
	"github.com/loam-os/loam/agent/plane/bundle"
	"github.com/loam-os/loam/test/files"
)

var built = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// fixture is a node, and what it finds. The node calls the functions that Config has at
// the time, except for Fetch, so a test may replace them.
type fixture struct {
	*Follower
	Config

	logs *observer.ObservedLogs

	// hook is called before each step of a write, unless it is nil.
	hook durable.Hook
}

// newFixture returns a node without anything on its disk.
func newFixture(t *testing.T, settings plane.Settings, first bool) *fixture {
	t.Helper()
	root := files.Root(t)
	core, logs := observer.New(zap.InfoLevel)
	var fetches sync.WaitGroup
	t.Cleanup(fetches.Wait)

	f := &fixture{logs: logs}
	dir := durable.New(root, func(step durable.Step) error {
		if f.hook == nil {
			return nil
		}
		return f.hook(step)
	})
	f.Config = Config{
		Store:     plane.NewStore(dir),
		Root:      root.Name(),
		Image:     files.Root(t),
		Name:      "node-1",
		First:     first,
		Addresses: func() ([]netip.Addr, error) { return nil, nil },
		Go:        fetches.Go,
		Prune:     func(string) error { return nil },
		Current:   func() (string, bool, error) { return "", false, nil },
		Uptime:    func() time.Duration { return time.Hour },
		Built:     built,
		Now:       func() time.Time { return built.AddDate(0, 1, 0) },
		Log:       zap.New(core),
	}
	f.Follower = New(plane.NewRecord(settings), f.late())
	return f
}

// late returns the configuration with functions that call what f has when they are
// called.
func (f *fixture) late() Config {
	c := f.Config
	c.Addresses = func() ([]netip.Addr, error) { return f.Addresses() }
	c.Go = func(run func()) { f.Go(run) }
	c.Prune = func(oldest string) error { return f.Prune(oldest) }
	c.NetworkChanges = func(ctx context.Context) (<-chan struct{}, error) {
		return f.NetworkChanges(ctx)
	}
	c.Current = func() (string, bool, error) { return f.Current() }
	c.API = func() (*api.Client, error) { return f.API() }
	c.Uptime = func() time.Duration { return f.Uptime() }
	c.Now = func() time.Time { return f.Now() }
	return c
}

// has gives the node these addresses.
func (f *fixture) has(addresses ...string) {
	var all []netip.Addr
	for _, text := range addresses {
		all = append(all, netip.MustParseAddr(text))
	}
	f.Addresses = func() ([]netip.Addr, error) { return all, nil }
}

// warnings returns the warnings in the log.
func (f *fixture) warnings() *observer.ObservedLogs {
	return f.logs.FilterLevelExact(zap.WarnLevel)
}

// newNode returns a node with a record, keys, a bundle and these addresses.
func newNode(t *testing.T, settings plane.Settings, addresses ...string) *fixture {
	t.Helper()
	n := newFixture(t, settings, false)
	n.has(addresses...)

	r, err := n.Store.Init(plane.NewRecord(settings), n.certificates.times())
	if err != nil {
		t.Fatal(err)
	}
	writeBundle(t, filepath.Join(n.Root, bundle.Directory, r.Kubernetes), r.Kubernetes)
	return n
}

// writeBundle makes a bundle in which programs are empty, except etcd 3.7.3, which
// prints its version.
func writeBundle(t *testing.T, dir, version string) {
	t.Helper()
	d := bundle.Description{Format: bundle.Format, Version: version, Arch: runtime.GOARCH}
	for _, name := range bundle.Programs {
		text := ""
		if name == "etcd" {
			text = "#!/bin/sh\necho etcd Version: 3.7.3\n"
		}
		files.Write(t, filepath.Join(dir, "bin", name), text)
		if err := os.Chmod(filepath.Join(dir, "bin", name), 0o755); err != nil {
			t.Fatal(err)
		}
		d.Files = append(d.Files, bundle.File{Name: "bin/" + name, Size: int64(len(text))})
	}

	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	files.Write(t, filepath.Join(dir, "bundle.json"), string(text))
	files.Write(t, filepath.Join(dir, "images/index.json"), `{"manifests": [
		{"digest": "sha256:c0c0",
		 "annotations": {"org.opencontainers.image.ref.name": "registry.k8s.io/coredns:v1"}},
		{"digest": "sha256:aaaa",
		 "annotations": {"org.opencontainers.image.ref.name": "registry.k8s.io/pause:3.10.1"}}]}`)
}

func (n *fixture) decode(t *testing.T) (config.Desired, error) {
	t.Helper()
	doc, err := n.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n.Decode(t.Context(), doc)
}

// settled is decode after the fetch that this begins, if any.
func (n *fixture) settled(t *testing.T) (config.Desired, error) {
	t.Helper()
	_, _ = n.decode(t)
	for n.isFetching() {
		<-n.again
	}
	return n.decode(t)
}

func (n *fixture) isFetching() bool {
	n.bundles.mu.Lock()
	defer n.bundles.mu.Unlock()
	return n.bundles.last.running
}

// textOf returns the text of a file or a unit.
func textOf(t *testing.T, d config.Desired, name string) string {
	t.Helper()
	for _, f := range d.Files {
		if f.Path == name {
			in, err := f.Content.Open()
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			text, err := io.ReadAll(in)
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
	}
	for _, u := range d.Units {
		if u.Name == name && u.Content != nil {
			return *u.Content
		}
	}
	return ""
}
