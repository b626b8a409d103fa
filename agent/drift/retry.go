package drift

import (
	"fmt"
	"time"

	"github.com/loam-os/loam/agent/inotify"
)

// A Watcher that the kernel gives no instance or too few watches tries again after
// firstRetry, and then after twice the time up to lastRetry.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// retry is the state of a Watcher that lacks an instance or watches. Watcher.mu
// guards it.
type retry struct {
	lack  error
	wait  time.Duration
	timer *time.Timer
}

// Err returns why not all managed paths are watched, or nil. The Watcher tries again
// by itself until it watches them all, and reports all of them each time: a change
// is noticed a minute later at most.
func (w *Watcher) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.retry.lack
}

// rearm is arm with a retry while the kernel is exhausted. All paths are reported
// when that begins, so that the receiver calls Err, and when it is over, as changes
// in between went unnoticed. mu must be held.
func (w *Watcher) rearm() error {
	err := w.arm()
	if w.ended {
		return err
	}

	lacked := w.retry.lack != nil
	w.retry.stop()
	w.retry.lack = nil
	if limit := inotify.Limit(err); limit != nil {
		err = fmt.Errorf("not all managed paths are watched, but looked at each minute: %w",
			limit)
		w.retry.lack = err
		w.retry.wait = min(max(2*w.retry.wait, firstRetry), lastRetry)
		w.retry.timer = time.AfterFunc(w.retry.wait, w.again)
	} else {
		w.retry.wait = 0
	}

	if lacked != (w.retry.lack != nil) {
		w.report(w.all())
	}

	return err
}

// again retries the paths that could not be watched, and has them looked at.
func (w *Watcher) again() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.retry.lack != nil && !w.ended {
		_ = w.rearm() // Err returns the error, or the next event finds the way gone.
		w.report(w.all())
	}
}

func (r *retry) stop() {
	if r.timer != nil {
		r.timer.Stop()
	}
}
