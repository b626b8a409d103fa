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

// requestLimit is how long a request may take.
const requestLimit = 10 * time.Second

// known is what the session's goroutine knows of the node and its cluster. It
// outlives sessions: the next goes on from there.
type known struct {
	// status was reported last.
	status status.Status

	// node is nil if there is none or, before looked, if that is not known.
	node   *core.Node
	looked bool
	delay  time.Duration
	flaps  flaps

	// offer is what the Secret says; nil before it is known.
	offer *offer

	// sound is the sum of the text that the Node says it runs, "" before it
	// does.
	sound string

	// addresses are those of the Node when it last had an internal one,
	// reminded that the kubelet was restarted for one it has lost.
	addresses []liveness.Address
	reminded  bool

	// lease is the node's own, renewed then.
	lease   *coordination.Lease
	renewed time.Time

	// sighting is of the Lease of turns.
	sighting sighting
	restart  restart
	update   update
	reach    reach
	tokens   tokens
	carried  carried
	told     told
}

// session is the time with one certificate. Its fields belong to one goroutine,
// to which the watches send what they see.
type session struct {
	*Cluster
	api *api
	who Credentials

	// renew is when to ask for the next certificate, renewing that it is asked
	// for.
	renew    time.Time
	renewing bool

	// refused says that the API server does not take the certificate, over that
	// the next session is to begin, failing that a request has failed since all
	// did not.
	refused, over, failing bool

	// rejections are of the parts of a step, by their place in it.
	rejections map[int]rejection

	// named is the name by which the Node is watched, "" while it is looked
	// for; unwatch ends that. seen says that a watch, or the answer to a patch,
	// has told of the Node in this session.
	named   string
	unwatch context.CancelFunc
	seen    bool
	turns   turns
	proof   proof

	// synced are the tokens whose Secrets are watched.
	synced []Token

	// reported is what the Node was last told of, with nothing left to tell.
	reported report

	// blocked is what the Node's word waits for, "" for nothing.
	blocked string

	// next is when to look again at the latest.
	next  time.Time
	whole context.Context
	group *sync.WaitGroup
}

// session talks to the cluster as who until ctx ends or there are newer
// credentials, and reports whether the old ones were refused.
func (c *Cluster) session(ctx context.Context, who Credentials) (refused bool) {
	a, err := newAPI(c.rest(who, ""))
	if err != nil {
		c.tried("connect", err)
		c.goBack()
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
		whole:      ctx,
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

	for !s.refused && (!s.over || s.update.busy) && ctx.Err() == nil {
		s.turn(ctx)
		s.renewal(ctx)
	}

	return s.refused
}

// post has f called by the session's goroutine.
func (c *Cluster) post(ctx context.Context, f func()) {
	select {
	case c.posted <- f:
	case <-ctx.Done():
	}
}

// turn waits for something to happen and does what it leads to.
func (s *session) turn(ctx context.Context) {
	timer := time.NewTimer(max(0, s.next.Sub(s.Now())))
	defer timer.Stop()
	events := s.events
	if s.node == nil {
		events = nil // They wait for somebody whom they are about.
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
		s.followAll(s.whole)
	case <-timer.C:
	}

	select {
	case s.status = <-s.reports: // What was said since is to be decided by, too.
	default:
	}

	s.readCarried()
	s.followTokens()
	s.next = s.Now().Add(leaseRenew)
	s.step(ctx)
}

// soon has the session look again at that time, if it would not before.
func (s *session) soon(at time.Time) {
	if at.Before(s.next) {
		s.next = at
	}
}

// step does what is due, each by what is known now. The sign of life comes
// first, and none waits for another. What the API server refuses for good is
// not done with every step.
func (s *session) step(ctx context.Context) {
	s.blocked = ""
	failed := false
	for i, part := range []func(context.Context) error{
		s.renewLease, s.reload, s.takeOffer, s.updateInPlace, s.reportNode, s.restoreAddresses,
		s.restartUnits, s.writeTokens, s.giveTurn,
	} {
		if rest := s.rejections[i].until - s.Uptime(); rest > 0 {
			failed = true
			s.soon(s.Now().Add(rest))
			continue
		}

		ctx, cancel := context.WithTimeout(ctx, requestLimit)
		err := part(ctx)
		cancel()
		s.rejections[i] = s.rejections[i].next(err, s.Uptime(), s.about)

		if err != nil {
			failed = true
			s.answered("write", err)
			s.soon(s.Now().Add(max(s.about(retryStep), s.rejections[i].until-s.Uptime())))
		}
	}

	if s.failing && !failed {
		s.tried("write", nil)
	}

	s.failing = failed
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.link.Waits != s.blocked {
		s.link.Waits = s.blocked
		signal(s.linked)
	}
}

// about is half of d to one and a half: not all nodes are to come at once.
func (c *Cluster) about(d time.Duration) time.Duration {
	return time.Duration((0.5 + c.Part()) * float64(d))
}

// waits notes what the Node's word waits for.
func (s *session) waits(what string) {
	if s.blocked == "" {
		s.blocked = what
	}
}

// answered takes in how a request went.
func (s *session) answered(key string, err error) {
	s.refused = s.refused || apierrors.IsUnauthorized(err)
	s.tried(key, err)
	if err == nil && !s.over {
		s.reach.before = nil // This way leads there.
	}
}

// renewal asks for the next certificate when it is time. Until there is one,
// which somebody may have to approve, all else goes on.
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
			s.over = true
		})
	})
}
