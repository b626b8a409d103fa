package local

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/bundle"
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

// downloads are the fetches of bundles, beside the loop. Several goroutines use it.
type downloads struct {
	// turn is held by the fetch that runs: a canceled one may take a moment to end.
	turn sync.Mutex

	sync.Mutex
	// last is the fetch that was begun last, empty if none counts any longer.
	last *download
}

// download is a fetch of the bundle of a version, for a record with the version
// needed.
type download struct {
	version, needed string
	cancel          context.CancelFunc
	running         bool

	// percent of size bytes are there, in steps. size is 0 until the repository has
	// answered.
	percent int
	size    int64

	// err is why it has failed, or the one before. The latter counts until this one gets
	// further than the percent in failedAt.
	err      error
	failedAt int

	// until is the uptime at which the node fetches again after a failure, and pause
	// how long it waits.
	until, pause time.Duration
}

// fetch returns nil if the bundle of a version is there that the record r needs, or
// if nothing can bring it. Otherwise the bundle is fetched beside the loop until ctx
// ends, with a pause after a failure. The error says how far that is, which is
// [source.ErrFetching], or why it has failed.
func (n *Node) fetch(ctx context.Context, r plane.Record, version string) error {
	if n.Fetch == nil || hasWhole(n.Root, version) {
		return nil
	}

	n.downloads.Lock()
	defer n.downloads.Unlock()
	last := n.downloads.last
	if last.version != version || !last.running && n.Uptime() >= last.until {
		last.stop()
		ctx, cancel := context.WithCancel(ctx)
		next := last.next(version)
		next.needed = r.Kubernetes
		next.cancel = cancel
		n.downloads.last = next
		n.Go(func() { n.download(ctx, next) })
	}
	return n.downloads.last.problem()
}

// hasWhole reports whether the node with that root directory has the whole bundle of a
// version.
func hasWhole(root, version string) bool {
	b, err := bundle.Open(filepath.Join(root, bundle.Directory, version))
	return err == nil && b.Version == version && b.Arch == runtime.GOARCH
}

// download fetches a bundle, and reports how far it is.
func (n *Node) download(ctx context.Context, d *download) {
	defer d.cancel()
	n.downloads.turn.Lock()
	defer n.downloads.turn.Unlock()

	err := ctx.Err()
	if err == nil {
		err = n.Fetch(ctx, d.version, func(done, all int64) { n.advance(d, done, all) })
	}

	n.downloads.Lock()
	d.end(err, n.Uptime())
	n.downloads.Unlock()
	notify(n.again)
	notify(n.changed)
}

// advance takes in that done bytes of all are there.
func (n *Node) advance(d *download, done, all int64) {
	n.downloads.Lock()
	news := d.advance(done, all)
	progress := d.progress()
	n.downloads.Unlock()

	if news {
		n.Log.Info("fetch the bundle of Kubernetes", zap.String("progress", progress.Error()))
		notify(n.changed)
	}
}

// problem returns why the bundle of a version is not there, nil if no fetch says
// it.
func (d *downloads) problem(version string) error {
	d.Lock()
	defer d.Unlock()

	if d.last.version != version {
		return nil
	}
	return d.last.problem()
}

// progress says how far a fetch is, "" if none runs or if the last one has failed.
func (d *downloads) progress() string {
	d.Lock()
	defer d.Unlock()

	if problem := d.last.problem(); errors.Is(problem, source.ErrFetching) {
		return problem.Error()
	}
	return ""
}

// endUnlessFor cancels a fetch for a record with another version.
func (d *downloads) endUnlessFor(needed string) {
	d.Lock()
	defer d.Unlock()

	if d.last.needed != needed {
		d.last.stop()
		d.last = &download{}
	}
}

// next returns the fetch of a version, after d.
func (d *download) next(version string) *download {
	next := &download{version: version, running: true}
	if d.version == version && d.err != nil {
		next.err = d.err
		next.failedAt = d.reached()
		next.pause = d.pause
	}
	return next
}

// reached returns the percent that were there, -1 if the repository has not answered.
func (d *download) reached() int {
	if d.size == 0 {
		return -1
	}
	return d.percent
}

// stop cancels the fetch if it runs.
func (d *download) stop() {
	if d.cancel != nil {
		d.cancel()
	}
}

// advance reports whether the progress is worth a report.
func (d *download) advance(done, all int64) bool {
	percent := int(100*done/max(all, 1)) / progressStep * progressStep
	if all == d.size && percent == d.percent {
		return false
	}

	d.percent = percent
	d.size = all
	if d.err != nil && percent > d.failedAt {
		d.err = nil
	}
	return true
}

// end takes in the result at that uptime.
func (d *download) end(err error, now time.Duration) {
	d.running = false
	d.err = err
	if err != nil {
		d.pause = max(minPause, min(2*d.pause, maxPause))
		d.until = now + d.pause
	}
}

// problem returns how far the fetch is, or why it has failed.
func (d *download) problem() error {
	if d.err != nil || !d.running {
		return d.err
	}
	return d.progress()
}

// progress returns how far the fetch is, as an error.
func (d *download) progress() error {
	fetching := fmt.Errorf("version %s of Kubernetes is %w", d.version, source.ErrFetching)
	if d.size == 0 {
		return fetching
	}
	return fmt.Errorf("%w: %d %% of %s", fetching, d.percent, Megabytes(d.size))
}

// Megabytes returns a number of bytes as text, rounded up.
func Megabytes(size int64) string { return fmt.Sprintf("%d MB", (size+999_999)/1_000_000) }
