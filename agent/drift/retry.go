package drift

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// The kernel has a limit of watches for all programs of a user. A Watcher that
// meets it tries again after firstRetry, and then twice as long each time up to
// lastRetry.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)

var errLimit = fmt.Errorf("not all managed paths are watched: inotify_add_watch: %w; "+
	"hint: raise the limit, sysctl fs.inotify.max_user_watches", unix.ENOSPC)

// retry is the state of a Watcher that lacks watches. Watcher.mu guards it.
type retry struct {
	lacks bool
	wait  time.Duration
	timer *time.Timer
	ended bool
}

// Err returns why not all managed paths are watched, nil if they are. It is the
// same error until the Watcher has them all, as it tries by itself.
func (w *Watcher) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.retry.lacks {
		return errLimit
	}
	return nil
}

// rearm is arm that is done again later while there are too few watches. All
// paths are reported when that begins, so that whoever receives them asks for
// Err, and when it is over, as nothing told of changes meanwhile. mu is held.
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
		w.offer(w.all())
	}

	return err
}

// again tries to watch what could not be watched.
func (w *Watcher) again() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.retry.lacks && !w.retry.ended {
		_ = w.rearm() // Err has it, or the next event finds the way gone.
	}
}

func (r *retry) stop() {
	if r.timer != nil {
		r.timer.Stop()
	}
}
