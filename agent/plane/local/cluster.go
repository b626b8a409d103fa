package local

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/api"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/hint"
)

// Pauses of a run while the API server does not answer, or refuses something.
// minRetry is also the least time between two looks at a cluster that is well: a
// watch may end at once, and what others write into the ConfigMap restarts
// programs.
const (
	minRetry = time.Second
	maxRetry = 30 * time.Second
)

// cluster keeps the cluster of a node as the record says.
type cluster struct {
	// node is the host name.
	node string

	// connect is API of [Config].
	connect func() (*api.Client, error)

	agreement *agreement
	addOns    addOns
	state     *clusterState
	log       *zap.Logger
}

// progress is the state of a run over its sessions.
type progress struct {
	addOns applied

	// problem was reported last.
	problem logged

	// pause is how long the next try waits after a problem.
	pause time.Duration
}

// run makes the cluster as the record says, until ctx ends, again after each change of
// the record, of which changes notifies.
func (c *cluster) run(ctx context.Context, changes <-chan struct{}) {
	p := progress{pause: minRetry}
	for ctx.Err() == nil {
		next := time.After(minRetry)
		err := c.session(ctx, changes, &p)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			select {
			case <-ctx.Done():
			case <-next:
			}
			continue
		}

		c.reportProblem(&p, err)
		select {
		case <-ctx.Done():
		case _, open := <-changes:
			if !open {
				return // ctx has ended, or files cannot be watched any longer.
			}
		case <-time.After(p.pause):
		}
		p.pause = min(2*p.pause, maxRetry)
	}
}

// session makes the cluster as the record says, and waits until one of them has
// changed, or some minutes are over. What is refused is reported and keeps nothing
// else back: the session ends earlier then, so that it is tried again. The error is
// that the API server does not answer.
func (c *cluster) session(ctx context.Context, changes <-chan struct{}, p *progress) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	defer server.Close()

	r, version, refused := c.agreement.agree(ctx, server)
	if version == "" {
		return refused
	}
	for _, err := range []error{
		c.addOns.apply(ctx, server, r, &p.addOns),
		reconcileNode(ctx, server, c.node, r),
	} {
		if refused == nil {
			refused = err
		}
	}
	if refused == nil {
		*p = progress{addOns: p.addOns, pause: minRetry}
		c.state.report(func(s *status.OwnCluster) {
			*s = status.OwnCluster{Name: r.Name, Kubernetes: r.Kubernetes, Ready: true}
		})
		return awaitChange(ctx, server, version, changes)
	}

	c.reportProblem(p, refused)
	watching, cancel := context.WithTimeout(ctx, p.pause)
	defer cancel()
	p.pause = min(2*p.pause, maxRetry)
	err = awaitChange(watching, server, version, changes)
	if errors.Is(watching.Err(), context.DeadlineExceeded) {
		return nil
	}
	return err
}

// reportProblem reports why the cluster is not as its record says, and logs it
// once. A fetch is reported by itself.
func (c *cluster) reportProblem(p *progress, err error) {
	problem := hint.Line(err)
	if errors.Is(err, source.ErrFetching) {
		problem = ""
	}
	if p.problem.isNews(problem) {
		c.log.Warn("the cluster is not as its record says yet", zap.String("error", problem))
	}
	c.state.report(func(s *status.OwnCluster) {
		s.Ready = false
		s.Problem = problem
	})
}

// errChanged ends a watch.
var errChanged = errors.New("changed")

// awaitChange returns nil when the ConfigMap is another than that version, when
// the record has changed, or after some minutes.
func awaitChange(
	ctx context.Context, server *api.Client, version string, changes <-chan struct{},
) error {
	watching, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	done := make(chan struct{})
	defer func() {
		cancel(nil)
		<-done
	}()
	go func() {
		defer close(done)
		select {
		case <-watching.Done():
		case _, open := <-changes:
			if open {
				cancel(errChanged)
			}
		}
	}()

	err := server.Watch(watching, configMaps, plane.RecordName, version,
		func() error { return errChanged })
	if errors.Is(err, errChanged) || errors.Is(context.Cause(watching), errChanged) {
		return nil
	}
	return err
}
