package drift

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/hint"
)

// The kernel limits the watches of all programs of a user. A Watcher at the
// limit retries after firstRetry, and then after twice the time up to
// lastRetry.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)

var errLimit = hint.With(
	fmt.Errorf("not all managed paths are watched: inotify_add_watch: %w", unix.ENOSPC),
	"raise the limit, sysctl fs.inotify.max_user_watches",
)

// retry is the state of a Watcher that lacks watches. Watcher.mu guards it.
type retry struct {
	lacks bool
	wait  time.Duration
	timer *time.Timer
	ended bool
}

// Err returns why not all managed paths are watched, or nil. It returns the
// same error until the Watcher, which retries by itself, watches them all.
func (w *Watcher) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.retry.lacks {
		return errLimit
	}
	return nil
}

// rearm is arm with a retry while there are too few watches. All paths are
// reported when that begins, so that the receiver calls Err, and when it is
// over, as changes in between went unnoticed. mu must be held.
func (w *Watcher) rearm() error {
	err := w.arm()
	if w.retry.ended {
		return err
	}

	lacked := w.retry.lacks
	w.retry.lacks = errors.Is(err, unix.ENOSPC)
	w.retry.stop()
	if w.retry.lacks {
		err = errLimit
		w.retry.wait = min(max(2*w.retry.wait, firstRetry), lastRetry)
		w.retry.timer = time.AfterFunc(w.retry.wait, w.again)
	} else {
		w.retry.wait = 0
	}

	if w.retry.lacks != lacked {
		w.report(w.all())
	}

	return err
}

// again retries the paths that could not be watched.
func (w *Watcher) again() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.retry.lacks && !w.retry.ended {
		_ = w.rearm() // Err returns the error, or the next event finds the way gone.
	}
}

func (r *retry) stop() {
	if r.timer != nil {
		r.timer.Stop()
	}
}
