package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/bundle"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// bundles are the bundles of Kubernetes on a node. What is missing is fetched beside
// the loop. Several goroutines use it.
type bundles struct {
	root string

	// fetch, spawn and uptime are Fetch, Go and Uptime of [Config].
	fetch  func(ctx context.Context, version string, progress func(done, all int64)) error
	spawn  func(func())
	uptime func() time.Duration

	log *zap.Logger

	// ended receives a value when a fetch has ended, and changed when progress may
	// return a different text.
	ended, changed chan<- struct{}

	// turn is held by the fetch that runs: a canceled one may take a moment to end.
	turn sync.Mutex

	// mu is for last, which is the fetch that was begun last, empty if none counts any
	// longer.
	mu   sync.Mutex
	last *download
}

// require returns nil if the bundle of a version is there that the record r needs, or
// if nothing can bring it. Otherwise the bundle is fetched beside the loop until ctx
// ends, with a pause after a failure. The error says how far that is, which is
// [source.ErrFetching], or why it has failed.
func (b *bundles) require(ctx context.Context, r plane.Record, version string) error {
	if b.fetch == nil || hasWhole(b.root, version) {
		return nil
	}

	b.mu.Lock()
	defer b.mu.Unlock()
	last := b.last
	if last.version != version || (!last.running && b.uptime() >= last.until) {
		last.stop()
		ctx, cancel := context.WithCancel(ctx)
		next := last.next(version)
		next.needed = r.Kubernetes
		next.cancel = cancel
		b.last = next
		b.spawn(func() { b.download(ctx, next) })
	}
	return b.last.problem()
}

// download fetches a bundle, and reports how far it is.
func (b *bundles) download(ctx context.Context, d *download) {
	defer d.cancel()
	b.turn.Lock()
	defer b.turn.Unlock()

	err := ctx.Err()
	if err == nil {
		err = b.fetch(ctx, d.version, func(done, all int64) { b.advance(d, done, all) })
	}

	b.mu.Lock()
	d.end(err, b.uptime())
	b.mu.Unlock()
	notify(b.ended)
	notify(b.changed)
}

// advance takes in that done bytes of all are there.
func (b *bundles) advance(d *download, done, all int64) {
	b.mu.Lock()
	news := d.advance(done, all)
	progress := d.progress()
	b.mu.Unlock()

	if news {
		b.log.Info("fetch the bundle of Kubernetes", zap.String("progress", progress.Error()))
		notify(b.changed)
	}
}

// problem returns why the bundle of a version is not there, nil if no fetch says
// it.
func (b *bundles) problem(version string) error {
	b.mu.Lock()
	defer b.mu.Unlock()

	if b.last.version != version {
		return nil
	}
	return b.last.problem()
}

// progress says how far a fetch is, "" if none runs or if the last one has failed.
func (b *bundles) progress() string {
	b.mu.Lock()
	defer b.mu.Unlock()

	if problem := b.last.problem(); errors.Is(problem, source.ErrFetching) {
		return problem.Error()
	}
	return ""
}

// endUnlessFor cancels a fetch for a record with another version.
func (b *bundles) endUnlessFor(needed string) {
	b.mu.Lock()
	defer b.mu.Unlock()

	if b.last.needed != needed {
		b.last.stop()
		b.last = &download{}
	}
}

// open opens the programs and images of the record's version.
func (b *bundles) open(r plane.Record) (bundle.Bundle, error) {
	found, err := bundle.Open(filepath.Join(b.root, bundleDir(r)))
	if err == nil {
		err = checkBundle(r, found)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return found, err
	}
	if problem := b.problem(r.Kubernetes); problem != nil {
		return found, fmt.Errorf("cluster %s: %w", r.Name, problem)
	}

	err = fmt.Errorf("cluster %s: this node has no bundle of Kubernetes %s", r.Name, r.Kubernetes)
	if b.fetch != nil {
		return found, err // It is about to be fetched.
	}
	return found, hint.With(err,
		"set upgrade.repository in machine.yaml, from which the node fetches it, or put the "+
			"bundle into %s", bundleDir(r))
}

// checkBundle returns why the bundle in the directory of the record's version is not
// for this node: an operator has put it there.
func checkBundle(r plane.Record, b bundle.Bundle) error {
	var err error
	switch {
	case b.Version != r.Kubernetes:
		err = fault.With(fmt.Errorf("cluster %s: %s has Kubernetes %s", r.Name, b.Dir, b.Version),
			fault.CannotBeApplied)
	case b.Arch != runtime.GOARCH:
		err = fault.With(fmt.Errorf("cluster %s: the bundle %s is for %s", r.Name, b.Dir, b.Arch),
			fault.WrongArchitecture)
	default:
		return nil
	}
	return hint.With(err, "put the bundle of Kubernetes %s for %s there", r.Kubernetes, runtime.GOARCH)
}

// bundleDir is the directory with the bundle of a version.
func bundleDir(r plane.Record) string { return path.Join(bundle.Directory, r.Kubernetes) }

// programsDir is the directory with the programs of a version on the node.
func programsDir(r plane.Record) string { return path.Join(bundleDir(r), "bin") }

// HasBundle reports whether the node with that root directory has the programs of a
// record.
func HasBundle(root string, r plane.Record) bool {
	_, err := bundle.Open(filepath.Join(root, bundleDir(r)))
	return !errors.Is(err, fs.ErrNotExist)
}

// hasWhole reports whether the node with that root directory has the whole bundle of a
// version.
func hasWhole(root, version string) bool {
	b, err := bundle.Open(filepath.Join(root, bundle.Directory, version))
	return err == nil && b.Version == version && b.Arch == runtime.GOARCH
}

// etcdVersion returns the version of etcd in the bundle of a record, "" if the node
// does not have the bundle.
func etcdVersion(ctx context.Context, root string, r plane.Record) (string, error) {
	b, err := bundle.Open(filepath.Join(root, bundleDir(r)))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}

	printed, err := b.EtcdVersion(ctx)
	if err != nil {
		return "", err
	}
	return plane.ParseEtcdVersion(printed)
}

// pause returns the image that holds the namespaces of a pod.
func pause(b bundle.Bundle) (string, error) {
	i := slices.IndexFunc(b.Images, func(image bundle.Image) bool {
		name, _, _ := strings.Cut(path.Base(image.Name), ":")
		return name == "pause"
	})
	if i < 0 {
		return "", hint.With(
			fmt.Errorf("bundle of Kubernetes %s: no image pause", b.Version),
			"make the bundle again, with the image pause")
	}
	return b.Images[i].Name, nil
}
