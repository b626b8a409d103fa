package cluster

import (
	"context"
	"sync"
	"time"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/liveness"
	"github.com/loam-os/loam/agent/status"
)

// requestTimeout is how long a request may take.
const requestTimeout = 10 * time.Second

// nodeCache is the session's view of the node and its cluster. It outlives
// sessions, so a new certificate loses no state.
type nodeCache struct {
	// status is the last reported status.
	status status.Status

	// node is nil if it does not exist or, before nodeKnown, if that is
	// unknown.
	node      *core.Node
	nodeKnown bool
	delay     time.Duration
	flaps     flaps

	// pending is the configuration in the Secret, nil until it is known.
	pending *pendingConfig

	// reportedDigest is the digest of the configuration that the Node reports
	// as applied, "" before the first report.
	reportedDigest string

	// addresses are the Node's addresses when it last had an internal one.
	// kubeletRestarted says that the kubelet was restarted for a lost address.
	addresses        []liveness.Address
	kubeletRestarted bool

	// lease is the agent's own Lease, renewed when it was last renewed.
	lease   *coordination.Lease
	renewed time.Time

	// observed is the observation of the rollout Lease.
	observed         observedLease
	restart          restart
	update           update
	endpoint         endpoint
	tokens           tokens
	carried          carried
	reportedRefusals refusalRecord
}

// session is the connection with one certificate. Its fields belong to one
// goroutine; the watches post what they see to it.
type session struct {
	*Cluster
	api *api
	who Credentials

	// renew is when to request the next certificate. renewing says that the
	// request is under way.
	renew    time.Time
	renewing bool

	// refused says that the API server does not accept the certificate,
	// finished that the next session should begin, failing that the last step
	// had errors.
	refused, finished, failing bool

	// rejections are the backoffs of the parts of step, by index.
	rejections map[int]rejection

	// watchedName is the name by which the Node is watched, "" while it is
	// watched by its host name label. unwatch ends that watch. seen says that a
	// watch or the answer to a patch has shown the Node in this session.
	watchedName string
	unwatch     context.CancelFunc
	seen        bool
	rollout     rollout
	readiness   readiness

	// tokensWatched are the tokens whose Secrets are watched.
	tokensWatched []Token

	// reported is the last report that left nothing to do.
	reported report

	// blocked is what the report of the Node waits for, "" for nothing.
	blocked string

	// wake is when to run the next step at the latest.
	wake  time.Time
	ctx   context.Context
	group *sync.WaitGroup
}

// session talks to the cluster with the credentials who until ctx ends or there
// are newer ones, and reports whether they were refused.
func (c *Cluster) session(ctx context.Context, who Credentials) (refused bool) {
	a, err := newAPI(c.rest(who, ""))
	if err != nil {
		c.recordResult("connect", err)
		c.revertEndpoint()
		pause(ctx, retryStep)
		return false
	}

	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	c.update.busy = false
	s := &session{
		Cluster:    c,
		api:        a,
		who:        who,
		renew:      who.renewAt(c.Part()),
		group:      &group,
		ctx:        ctx,
		rejections: map[int]rejection{},
	}

	c.mu.Lock()
	c.link.Expires = who.NotAfter
	c.mu.Unlock()
	signal(c.linked)
	defer a.close()
	defer group.Wait()
	defer cancel()
	defer s.unfollow()
	s.watchSecret(ctx)
	s.watchNode("")
	s.followTokens()
	s.followAll(ctx)

	for !s.refused && (!s.finished || s.update.busy) && ctx.Err() == nil {
		s.handleEvent(ctx)
		s.renewal(ctx)
	}

	return s.refused
}

// post makes the session's goroutine call f.
func (c *Cluster) post(ctx context.Context, f func()) {
	select {
	case c.posted <- f:
	case <-ctx.Done():
	}
}

// handleEvent waits for an event and runs a step.
func (s *session) handleEvent(ctx context.Context) {
	timer := time.NewTimer(max(0, s.wake.Sub(s.Now())))
	defer timer.Stop()
	events := s.events
	if s.node == nil {
		events = nil // They wait for the Node that they are about.
	}

	select {
	case <-ctx.Done():
		return
	case f := <-s.posted:
		f()
	case s.status = <-s.reports:
	case e := <-events:
		s.event(s.node, e.kind, e.reason, e.message)
	case <-s.followed:
		s.followAll(s.ctx)
	case <-timer.C:
	}

	select {
	case s.status = <-s.reports: // Decide by the newest status.
	default:
	}

	s.readCarried()
	s.followTokens()
	s.wake = s.Now().Add(leaseRenew)
	s.step(ctx)
}

// wakeAt runs the next step no later than at.
func (s *session) wakeAt(at time.Time) {
	if at.Before(s.wake) {
		s.wake = at
	}
}

// step runs all parts that are due. The agent's Lease comes first, and no part
// waits for another. A part that the API server rejects for good backs off.
func (s *session) step(ctx context.Context) {
	s.blocked = ""
	failed := false
	for i, part := range []func(context.Context) error{
		s.renewLease, s.reload, s.releasePending, s.updateInPlace, s.reportNode, s.restoreAddresses,
		s.restartUnits, s.writeTokens, s.renewOrReleaseRollout,
	} {
		if rest := s.rejections[i].until - s.Uptime(); rest > 0 {
			failed = true
			s.wakeAt(s.Now().Add(rest))
			continue
		}

		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		err := part(ctx)
		cancel()
		s.rejections[i] = s.rejections[i].next(err, s.Uptime(), s.about)

		if err != nil {
			failed = true
			s.handleResult("write", err)
			s.wakeAt(s.Now().Add(max(s.about(retryStep), s.rejections[i].until-s.Uptime())))
		}
	}

	if s.failing && !failed {
		s.recordResult("write", nil)
	}

	s.failing = failed
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.link.Waits != s.blocked {
		s.link.Waits = s.blocked
		signal(s.linked)
	}
}

// about returns a random duration between half of d and one and a half, to
// spread the nodes.
func (c *Cluster) about(d time.Duration) time.Duration {
	return time.Duration((0.5 + c.Part()) * float64(d))
}

// setBlocked records the first thing that the report of the Node waits for.
func (s *session) setBlocked(what string) {
	if s.blocked == "" {
		s.blocked = what
	}
}

// handleResult records the result of a request under key.
func (s *session) handleResult(key string, err error) {
	s.refused = s.refused || apierrors.IsUnauthorized(err)
	s.recordResult(key, err)
	if err == nil && !s.finished {
		s.endpoint.before = nil // The new address works.
	}
}

// renewal requests the next certificate when it is time. The session goes on
// while the request waits for approval.
func (s *session) renewal(ctx context.Context) {
	if s.renewing || s.update.busy || s.Now().Before(s.renew) {
		return
	}

	s.renewing = true
	config := s.Config
	s.group.Go(func() {
		who, err := s.join(ctx, config, s.who, "")
		s.post(ctx, func() {
			s.renewing = false
			if err != nil {
				s.Log.Error("renew the certificate", zap.Error(err))
				s.renew = s.Now().Add(time.Minute)
				return
			}
			s.Log.Info("renewed the certificate", zap.Time("expires", who.NotAfter))
			s.finished = true
		})
	})
}
