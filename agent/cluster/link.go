package cluster

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/cluster/reach"
	"github.com/loam-os/loam/agent/status"
)

// link is the state of the connection to the API server.
type link struct {
	log *zap.Logger

	// changed signals that state has changed.
	changed chan struct{}

	mu    sync.Mutex
	state status.Cluster

	// problems are what is wrong although the API server is reached, by what
	// it is about.
	problems map[string]reach.Problem

	// network observes the node's network; nil if that is not known. as is as
	// whom the node makes requests.
	network func() reach.Network
	as      string
}

func newLink(log *zap.Logger, state status.Cluster) *link {
	return &link{
		log:      log,
		changed:  make(chan struct{}, 1),
		state:    state,
		problems: map[string]reach.Problem{},
	}
}

func (l *link) get() status.Cluster {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}

// identify records as whom the node makes its next requests.
func (l *link) identify(as string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.as = as
}

// record records at now whether a request reached the API server and how it
// answered. A server that rejects a request is connected; key says what the
// request was for.
func (l *link) record(key string, err error, now time.Time) {
	if errors.Is(err, context.Canceled) {
		return
	}

	problem := l.explain(err, now)
	l.edit(func(state *status.Cluster) {
		if err != nil && !isRefusal(err) {
			if state.Connected {
				state.Connected = false
				state.Since = now
			}
			show(state, problem)
			return
		}

		if !state.Connected {
			state.Connected = true
			state.Since = now
			state.Reached = true
		}

		delete(l.problems, key)
		if err != nil && !apierrors.IsConflict(err) {
			l.problems[key] = problem
		}

		show(state, l.firstProblem())
	})
}

// explain returns why a request at now has ended with err; zero for nil.
func (l *link) explain(err error, now time.Time) reach.Problem {
	if err == nil {
		return reach.Problem{}
	}

	l.mu.Lock()
	attempt := reach.Attempt{Server: l.state.Server, As: l.as, Now: now}
	l.mu.Unlock()
	if l.network != nil {
		attempt.Network = l.network()
	}
	return reach.Explain(err, attempt)
}

// setProblem records a problem under key. An empty problem clears it.
func (l *link) setProblem(key string, problem reach.Problem) {
	l.edit(func(state *status.Cluster) {
		delete(l.problems, key)
		if problem.Text != "" {
			l.problems[key] = problem
		}
		if state.Connected {
			show(state, l.firstProblem())
		}
	})
}

// show puts a problem into the state.
func show(state *status.Cluster, p reach.Problem) {
	state.Problem = p.Text
	state.Tried = p.Tried
	state.Hint = p.Hint
	state.Code = p.Code
}

// firstProblem returns the first of problems, zero if none. mu must be held.
func (l *link) firstProblem() reach.Problem {
	if len(l.problems) == 0 {
		return reach.Problem{}
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
	if before.Connected != after.Connected || (before.Problem == "" && after.Problem != "") {
		l.log.Info("API server",
			zap.Bool("connected", after.Connected),
			zap.String("problem", after.Problem),
			zap.String("code", string(after.Code)),
			zap.String("tried", after.Tried))
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
