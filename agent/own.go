package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"time"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/loop"
	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/networkd/watch"
	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/api"
	"github.com/loam-os/loam/agent/plane/bundle"
	"github.com/loam-os/loam/agent/plane/local"
	"github.com/loam-os/loam/agent/plane/pki"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/upgrade"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// recordDecoder decodes the cluster record of a node, and all other documents as
// the Decoder does.
type recordDecoder struct {
	loop.Decoder
	follower *local.Follower
}

// Decode implements [loop.Decoder].
func (d recordDecoder) Decode(ctx context.Context, doc source.Document) (config.Desired, error) {
	if doc.Name == plane.RecordFile {
		return d.follower.Decode(ctx, doc)
	}
	return d.Decoder.Decode(ctx, doc)
}

// ownCluster is the cluster that the node makes by itself.
type ownCluster struct {
	Env
	root, image *os.Root
	store       plane.Store
	engine      *apply.Executor
	// releases says where bundles of Kubernetes come from.
	releases machine.Upgrade
	hostname string
	// run runs something beside the loop.
	run func(func())
}

// open returns the cluster of the node's record, also when machine.yaml is gone, or
// the one that the node is to make; nil if there is neither. A node whose record is
// damaged goes on with the one that it last ran. Certificates that are due are issued
// here, before systemd starts the programs that read them.
func (c ownCluster) open(first newCluster) (follower *local.Follower, warning, err error) {
	r, made, err := local.FindRecord(c.store, first.record)
	if err != nil || r == nil {
		return nil, nil, err
	}

	built, err := c.Built()
	if err != nil {
		return nil, nil, err
	}
	config := c.config(built, first)
	config.First = !made
	follower = local.New(*r, config)
	if made {
		warning = follower.Renew(*r)
	}
	return follower, warning, nil
}

// config returns what the control plane of the node is made of. built is the date of
// the image's kernel.
func (c ownCluster) config(built time.Time, first newCluster) local.Config {
	config := local.Config{
		Store:     c.store,
		Root:      c.Root,
		Image:     c.image,
		Name:      c.hostname,
		FsyncP99:  first.fsyncP99,
		Addresses: c.Addresses,
		NetworkChanges: func(ctx context.Context) (<-chan struct{}, error) {
			return watch.Changes(ctx, c.Root)
		},
		Current: func() (string, bool, error) { return currentChange(c.engine) },
		API:     func() (*api.Client, error) { return api.New(c.store, pki.Agent) },
		Go:      c.run,
		Uptime:  c.Uptime,
		Built:   built,
		Now:     c.Now,
		Log:     c.Log,
	}
	if c.releases.Repository != "" {
		config.Fetch = c.fetcher(built)
		config.Prune = c.prune
	}
	return config
}

// fetcher returns what fetches bundles of Kubernetes from the repository of
// machine.yaml.
func (c ownCluster) fetcher(
	built time.Time,
) func(ctx context.Context, version string, progress func(done, all int64)) error {
	store := bundle.NewStore(durable.New(c.root, nil))
	from := bundle.Source{
		Ref:     c.releases.Repository,
		Root:    []byte(c.releases.Root),
		Keep:    upgrade.Files{Dir: c.engine.Config().State},
		Mirrors: c.releases.Mirrors,
		Built:   built,
	}
	return func(ctx context.Context, version string, progress func(done, all int64)) error {
		_, err := store.Fetch(ctx, from, bundle.Request{
			Version:  version,
			Arch:     runtime.GOARCH,
			Now:      c.Now(),
			Progress: progress,
			Log:      c.Log,
		})
		return err
	}
}

// prune removes the programs of versions before oldest, unless a generation names
// them: the other system may go on with its own, and an operator may go back.
func (c ownCluster) prune(oldest string) error {
	named, err := namedBundles(generation.Read(c.engine.Config().State.Root().FS()))
	if err != nil {
		return err
	}
	return bundle.NewStore(durable.New(c.root, nil)).Prune(oldest, named)
}

// namedBundles returns the versions whose programs or images a unit of any generation
// names.
func namedBundles(generations generation.Reader) ([]string, error) {
	names, err := generations.List()
	if err != nil {
		return nil, err
	}

	var versions []string
	for _, name := range names {
		m, err := generations.Load(name)
		if err != nil {
			return nil, err
		}
		for _, e := range m.Entries {
			if e.Kind != generation.KindFile || path.Ext(e.Path) != ".service" {
				continue
			}
			text, err := readContent(generations, e)
			if err != nil {
				return nil, err
			}
			versions = append(versions, bundle.NamedIn(text)...)
		}
	}
	return versions, nil
}

func readContent(generations generation.Reader, e generation.Entry) ([]byte, error) {
	in, err := generations.Open(e)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(in)
	return text, errors.Join(err, in.Close())
}

// currentChange returns the digest of the configuration that the node runs, "" if
// none, and whether it is on trial. A damaged one counts as none: the next replaces
// it.
func currentChange(engine *apply.Executor) (digest string, trying bool, err error) {
	current, _, err := engine.Current()
	if err != nil && !errors.Is(err, generation.ErrIncomplete) {
		return "", false, err
	}
	_, trying, err = engine.Pending()
	return current.Digest, trying, err
}

// checkSource returns why the source of machine.yaml does not count: the node has a
// cluster record, and goes on with that.
func checkSource(store plane.Store, from machine.Source) error {
	r, found, err := store.Followed()
	if err != nil || !found || from == (machine.Source{}) {
		return nil // Whoever opens the cluster reports the error.
	}
	return hint.With(
		fault.With(
			fmt.Errorf("source of machine.yaml: this node is the first of cluster %s", r.Name),
			fault.CannotBeApplied,
		),
		"leave source out, or reset the node: its cluster is lost then",
	)
}
