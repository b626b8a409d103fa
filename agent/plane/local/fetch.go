package local

import (
	"context"
	"time"
)

// Pauses after a fetch that has failed: the first and the longest. The agent asks
// every few seconds, and a fetch that fails at its end has read hundreds of
// megabytes.
const (
	minPause = 5 * time.Second
	maxPause = time.Minute
)

// failure is a fetch that has failed.
type failure struct {
	version string
	err     error

	// until is the uptime at which the node fetches again, after pause.
	until time.Duration
	pause time.Duration
}

// fetch calls Fetch, and returns the same error until the pause after a failure is
// over.
func (n *Node) fetch(ctx context.Context, version string) error {
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

	err := n.Fetch(ctx, version)
	if err == nil || ctx.Err() != nil {
		n.failed = failure{}
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
