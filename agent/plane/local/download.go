package local

import (
	"context"
	"fmt"
	"time"

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
