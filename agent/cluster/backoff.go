package cluster

import (
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/loam-os/loam/agent/cluster/credentials"
)

const (
	// retryStep is the usual pause before a failed request is retried.
	retryStep = time.Second
	// maxRejected is the longest pause, before jitter, between two requests
	// that the API server rejects for good. With jitter it is at most a minute.
	maxRejected = 40 * time.Second
	// maxRefused is the longest pause between two attempts with refused
	// credentials.
	maxRefused = 30 * time.Second
)

// isRejected reports whether err is an answer that stays the same until an
// administrator changes a permission or the object: 403, but neither a conflict
// nor a missing object.
func isRejected(err error) bool {
	return isRefusal(err) && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err)
}

// nextPause doubles a pause, up to limit.
func nextPause(pause, limit time.Duration) time.Duration {
	return min(max(2*pause, retryStep), limit)
}

// joinPause returns the pause, without jitter, before the node next tries to
// join. before is the previous pause, err the error of the last attempt, and
// refused says that the node's credentials were refused.
func joinPause(before time.Duration, err error, refused bool) time.Duration {
	switch {
	case errors.Is(err, credentials.ErrDenied), errors.Is(err, credentials.ErrUnreadable):
		return maxRefused // The next request is a new object in the cluster.
	case isRejected(err), apierrors.IsUnauthorized(err):
		return nextPause(before, maxRejected)
	case err != nil:
		return retryStep
	case refused:
		return nextPause(before, maxRefused)
	}
	return 0
}

// rejection is the backoff of one part of a step whose requests the API server
// rejects for good. Its times are uptimes.
type rejection struct{ pause, until time.Duration }

// next returns the backoff after a request that ended with err. about adds
// jitter.
func (r rejection) next(
	err error, uptime time.Duration, about func(time.Duration) time.Duration,
) rejection {
	if !isRejected(err) {
		return rejection{}
	}
	pause := nextPause(r.pause, maxRejected)
	return rejection{pause: pause, until: uptime + about(pause)}
}
