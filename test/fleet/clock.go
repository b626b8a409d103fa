package fleet

import (
	"context"
	"sync"
	"time"
)

// clock is the clocks of a machine.
type clock struct {
	mu sync.Mutex

	// began is when the machine started, and asked how often that was asked, in
	// nanoseconds. ahead is how far its wall clock is ahead.
	began time.Time
	asked time.Duration
	ahead time.Duration
}

// start makes now the start of the machine.
func (c *clock) start() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.began = time.Now()
}

// uptime is the time since the machine started. No two calls return the same: the
// time of the bubble stands still while agents work, and a status is told from
// another by its time.
func (c *clock) uptime() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	return time.Since(c.began) + c.asked
}

// now is the wall clock.
func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead)
}

// set sets the wall clock.
func (c *clock) set(ahead time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead = ahead
}

// token is held by one goroutine at a time. Unlike a mutex, it lets the time of the
// bubble go on while another waits for it.
type token chan struct{}

func (t token) lock()   { t <- struct{}{} }
func (t token) unlock() { <-t }

// tryLock is lock that does not wait. It reports whether it has succeeded.
func (t token) tryLock() bool {
	select {
	case t <- struct{}{}:
		return true
	default:
		return false
	}
}

// sleep waits for d, and returns false if ctx ends before.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
