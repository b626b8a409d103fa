package cluster

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// retryStep is about when a request that failed is made again.
	retryStep = time.Second
	// maxRejected is the longest time between two requests that the API server
	// refuses for good: with jitter, at most a minute.
	maxRejected = 40 * time.Second
	// maxHold is the longest time between two tries with credentials that are
	// not taken.
	maxHold = 30 * time.Second
)

// isRejected reports whether err is an answer that stays the same until
// somebody changes a right or the object: 403, but not a conflict or an object
// that is not there.
func isRejected(err error) bool {
	return isRefusal(err) && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err)
}

// longer returns the pause after one of that length, up to limit.
func longer(pause, limit time.Duration) time.Duration {
	return min(max(2*pause, retryStep), limit)
}

// nextHold returns how long to wait, without jitter, before the node tries
// again to be let in: before is how long it waited the last time, err what it
// got instead of credentials, and refused says that those it has were refused.
func nextHold(before time.Duration, err error, refused bool) time.Duration {
	switch {
	case errors.Is(err, ErrDenied), errors.Is(err, errUnreadable):
		return maxHold // The next request is another object in the cluster.
	case isRejected(err), apierrors.IsUnauthorized(err):
		return longer(before, maxRejected)
	case err != nil:
		return retryStep
	case refused:
		return longer(before, maxHold)
	}
	return 0
}

// pauseFor waits for d, and reports whether it ended early because the
// bootstrap token of the node is not token any more.
func (c *Cluster) pauseFor(ctx context.Context, d time.Duration, token string) bool {
	end := time.NewTimer(d)
	defer end.Stop()
	tick := time.NewTicker(retryStep)
	defer tick.Stop()

	for {
		select {
		case <-ctx.Done():
			return false
		case <-end.C:
			return false
		case <-tick.C:
			if now, err := c.keep().token(); err == nil && now != token {
				return true
			}
		}
	}
}

// rejection is how long a part of a session waits whose requests the API server
// refuses for good. Times are uptimes.
type rejection struct{ pause, until time.Duration }

// next takes in how a request went: about adds jitter.
func (r rejection) next(
	err error, uptime time.Duration, about func(time.Duration) time.Duration,
) rejection {
	if !isRejected(err) {
		return rejection{}
	}
	pause := longer(r.pause, maxRejected)
	return rejection{pause: pause, until: uptime + about(pause)}
}
