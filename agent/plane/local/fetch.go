package local

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/source"
)

// Pauses after a fetch that has failed: the first and the longest. The agent asks
// every few seconds, and a fetch that fails at its end has read hundreds of
// megabytes.
const (
	minPause = 5 * time.Second
	maxPause = time.Minute
)

// progressStep is how many percent of a bundle are a progress worth reporting.
const progressStep = 10

// errReplaced ends the fetch of a bundle that the record does not name any longer.
var errReplaced = errors.New("the record has another version by now")

// failure is a fetch that has failed.
type failure struct {
	version string
	err     error

	// until is the uptime at which the node fetches again, after pause.
	until time.Duration
	pause time.Duration
}

// download is the last fetch of a bundle. Several goroutines use it.
type download struct {
	sync.Mutex

	version string
	running bool
	// err is why it has failed.
	err error

	// percent of size bytes are there, in steps. size is 0 until the repository has
	// answered.
	percent int
	size    int64
}

// fetch calls Fetch for a version that the record r needs, and returns the same error
// until the pause after a failure is over.
func (n *Node) fetch(ctx context.Context, r plane.Record, version string) error {
	if n.Fetch == nil {
		return nil
	}

	last := n.failed
	if last.version != version {
		last = failure{version: version}
	}
	if n.Uptime() < last.until {
		return last.err
	}

	err := n.download.run(ctx, n, r, version)
	if err == nil || ctx.Err() != nil || errors.Is(err, errReplaced) {
		if n.failed.version == version {
			n.failed = failure{}
		}
		return err
	}
	pause := max(minPause, min(2*last.pause, maxPause))
	n.failed = failure{
		version: version,
		err:     err,
		until:   n.Uptime() + pause,
		pause:   pause,
	}
	return err
}

// run fetches a bundle, and reports how far it is. It ends when the record of the
// node names another version than r.
func (d *download) run(ctx context.Context, n *Node, r plane.Record, version string) error {
	d.begin(version)
	defer n.notify()

	ctx, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { n.awaitReplaced(ctx, r.Kubernetes, cancel) })
	err := n.Fetch(ctx, version, func(done, all int64) {
		if d.advance(done, all) {
			n.Log.Info("fetch the bundle of Kubernetes",
				zap.String("version", version), zap.String("progress", d.progress()))
			n.notify()
		}
	})
	if err != nil && errors.Is(context.Cause(ctx), errReplaced) {
		err = fmt.Errorf("fetch version %s of Kubernetes: %w", version, errReplaced)
	}
	cancel(nil)
	watching.Wait()

	d.end(err)
	return err
}

// awaitReplaced calls cancel when the record of the node names another version, or
// returns when ctx ends.
func (n *Node) awaitReplaced(
	ctx context.Context, version string, cancel context.CancelCauseFunc,
) {
	changes, err := source.File{Path: filepath.Join(n.Root, plane.RecordFile)}.Watch(ctx)
	if err != nil {
		return // Then the fetch goes on, as it would without a change.
	}
	for open := true; open; _, open = <-changes {
		r, found, err := n.Store.Record()
		if err == nil && found && r.Kubernetes != version {
			cancel(errReplaced)
		}
	}
}

func (d *download) begin(version string) {
	d.Lock()
	defer d.Unlock()

	d.version = version
	d.running = true
	d.err = nil
	d.percent = 0
	d.size = 0
}

// advance reports whether the progress is worth a report.
func (d *download) advance(done, all int64) bool {
	d.Lock()
	defer d.Unlock()

	percent := int(100*done/max(all, 1)) / progressStep * progressStep
	if all == d.size && percent == d.percent {
		return false
	}
	d.percent = percent
	d.size = all
	return true
}

func (d *download) end(err error) {
	d.Lock()
	defer d.Unlock()

	d.running = false
	d.err = err
}

// progress says how far a fetch is, "" if none runs whose size is known.
func (d *download) progress() string {
	d.Lock()
	defer d.Unlock()

	if !d.running || d.size == 0 {
		return ""
	}
	return fmt.Sprintf("version %s of Kubernetes is being fetched: %d %% of %s",
		d.version, d.percent, Megabytes(d.size))
}

// Megabytes returns a number of bytes as text, rounded up.
func Megabytes(size int64) string { return fmt.Sprintf("%d MB", (size+999_999)/1_000_000) }

// problem returns why the bundle of a version is not there, nil if no fetch says
// it.
func (d *download) problem(version string) error {
	if text := d.progress(); text != "" {
		return errors.New(text)
	}
	d.Lock()
	defer d.Unlock()

	switch {
	case d.version != version:
		return nil
	case d.running:
		return fmt.Errorf("version %s of Kubernetes is being fetched", version)
	}
	return d.err
}
