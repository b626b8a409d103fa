package cluster

import (
	"context"
	"crypto/x509"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/cluster/credentials"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/hint"
)

// link is the state of the connection to the API server.
type link struct {
	log *zap.Logger

	// changed signals that state has changed.
	changed chan struct{}

	mu    sync.Mutex
	state status.Cluster

	// problems are the errors with which a reachable API server rejects
	// requests, by what the request was for.
	problems map[string]string
}

func newLink(log *zap.Logger, state status.Cluster) *link {
	return &link{
		log:      log,
		changed:  make(chan struct{}, 1),
		state:    state,
		problems: map[string]string{},
	}
}

func (l *link) get() status.Cluster {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}

// record records at now whether a request reached the API server and how it
// answered. A server that rejects a request is connected; key says what the
// request was for.
func (l *link) record(key string, err error, now time.Time) {
	if errors.Is(err, context.Canceled) {
		return
	}

	l.edit(func(state *status.Cluster) {
		if err != nil && !isRefusal(err) {
			if state.Connected {
				state.Connected = false
				state.Since = now
			}
			state.Problem = hint.Line(adviseOnClock(err, now))
			return
		}

		if !state.Connected {
			state.Connected = true
			state.Since = now
			state.Reached = true
		}

		delete(l.problems, key)
		if err != nil && !apierrors.IsConflict(err) {
			l.problems[key] = hint.Line(err)
		}

		state.Problem = l.firstProblem()
	})
}

// setProblem records a problem under key. An empty problem clears it.
func (l *link) setProblem(key, problem string) {
	l.edit(func(state *status.Cluster) {
		delete(l.problems, key)
		if problem != "" {
			l.problems[key] = problem
		}
		if state.Connected {
			state.Problem = l.firstProblem()
		}
	})
}

// firstProblem returns the first of problems, "" if none. mu must be held.
func (l *link) firstProblem() string {
	if len(l.problems) == 0 {
		return ""
	}
	return l.problems[slices.Min(slices.Collect(maps.Keys(l.problems)))]
}

// edit changes the state, and signals if it is another one.
func (l *link) edit(change func(state *status.Cluster)) {
	l.mu.Lock()
	before := l.state
	change(&l.state)
	after := l.state
	l.mu.Unlock()

	if before == after {
		return
	}

	signal(l.changed)
	if before.Connected != after.Connected || before.Problem == "" && after.Problem != "" {
		l.log.Info("API server",
			zap.Bool("connected", after.Connected),
			zap.String("problem", after.Problem))
	}
}

// isRefusal reports whether err is a rejection from a healthy API server.
func isRefusal(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return false
	}
	code := answer.Status().Code
	return code >= 400 && code < 500 && code != http.StatusUnauthorized &&
		code != http.StatusTooManyRequests
}

// adviseOnClock adds a hint to an error that a wrong clock explains: a
// certificate that has expired, or is not valid yet.
func adviseOnClock(err error, now time.Time) error {
	invalid, is := errors.AsType[x509.CertificateInvalidError](err)
	if !is || invalid.Reason != x509.Expired {
		return err
	}
	return hint.With(err, "%s", credentials.ClockHint(now))
}
