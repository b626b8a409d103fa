package cluster

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/inplace"
	"github.com/loam-os/loam/agent/liveness"
	"github.com/loam-os/loam/agent/status"
)

const (
	// retryStep is about when a request that failed is made again, requestLimit how long
	// one may take.
	retryStep    = time.Second
	requestLimit = 10 * time.Second
)

// session is the time with one certificate. Its fields belong to one goroutine,
// to which the watches send what they see.
type session struct {
	*Cluster
	api *api
	who Credentials
	// renew is when to ask for the next certificate, renewing that it is asked for.
	renew    time.Time
	renewing bool
	// refused says that the API server does not take the certificate, over that
	// the next session is to begin.
	refused, over bool

	// node is nil if there is none or, before looked, if that is not known.
	node   *core.Node
	looked bool
	// named is the name by which the Node is watched, "" while it is looked for;
	// unwatch ends that.
	named   string
	unwatch context.CancelFunc
	delay   time.Duration
	// offer is what the Secret says; nil before it is known.
	offer *offer
	turns turns
	proof proof
	// reported is what the Node was last told of, with nothing left to tell.
	reported report
	// addresses are those of the Node when it last had an internal one.
	addresses []liveness.Address
	// blocked is what the Node's word waits for, "" for nothing.
	blocked string
	// lease is the node's own, renewed then.
	lease   *coordination.Lease
	renewed time.Time
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
		c.tried(err)
		pause(ctx, retryStep)
		return false
	}
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	c.busy = false
	s := &session{Cluster: c, api: a, who: who, renew: who.renewAt(c.Part()), group: &group, whole: ctx}
	c.mu.Lock()
	c.link.Expires = who.NotAfter
	c.mu.Unlock()
	defer a.close()
	defer group.Wait()
	defer cancel()
	defer s.unfollow()
	s.watchSecret(ctx)
	s.watchNode("")
	for _, t := range c.Tokens {
		s.watchToken(ctx, t)
	}
	s.followAll(ctx)
	for !s.refused && (!s.over || s.busy) && ctx.Err() == nil {
		s.turn(ctx)
		s.renewal(ctx)
	}
	return s.refused
}

// observe watches the one object that q finds beside the session, which calls
// seen, with false if there is none. If there are several, the last by name counts.
func observe[T runtime.Object](ctx context.Context, s *session, q query, kind T, seen func(object T, ok bool)) {
	observeAll(ctx, s, q, kind, func(objects []T) {
		if len(objects) == 0 {
			var none T
			seen(none, false)
			return
		}
		seen(objects[len(objects)-1], true)
	})
}

// observeAll is observe for any number of objects.
func observeAll[T runtime.Object](ctx context.Context, s *session, q query, kind T, seen func(objects []T)) {
	s.group.Go(func() {
		tried := func(err error) { s.post(ctx, func() { s.answered(err) }) }
		begun := func() { s.watches.Add(1) }
		s.watches.Add(-1) // Only those after the first are counted.
		watch(ctx, q, kind, begun, tried, func(objects []T) { s.post(ctx, func() { seen(objects) }) })
	})
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
	select {
	case <-ctx.Done():
		return
	case f := <-s.posted:
		f()
	case now := <-s.reports:
		s.reload(now)
		s.status = now
	case e := <-s.events:
		if s.node != nil {
			s.event(s.node, e.kind, e.reason, e.message)
		}
	case <-s.followed:
		s.followAll(s.whole)
	case <-timer.C:
	}
	s.next = s.Now().Add(leaseRenew)
	s.step(ctx)
}

// soon has the session look again at that time, if it would not before.
func (s *session) soon(at time.Time) {
	if at.Before(s.next) {
		s.next = at
	}
}

// step does what is due, each by what is known now.
func (s *session) step(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	s.blocked = ""
	for _, part := range []func(context.Context) error{
		s.takeOffer, s.updateInPlace, s.reportNode, s.restoreAddresses, s.restartUnits, s.renewLease, s.giveTurn,
	} {
		if err := part(ctx); err != nil {
			s.answered(err)
			s.soon(s.Now().Add(time.Duration((0.5 + s.Part()) * float64(retryStep)))) // Not all nodes at once.
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link.Waits != s.blocked {
		s.link.Waits = s.blocked
		signal(s.linked)
	}
}

// waits notes what the Node's word waits for.
func (s *session) waits(what string) {
	if s.blocked == "" {
		s.blocked = what
	}
}

// answered takes in how a request went.
func (s *session) answered(err error) {
	s.refused = s.refused || apierrors.IsUnauthorized(err)
	s.tried(err)
}

// renewal asks for the next certificate when it is time. Until there is one,
// which somebody may have to approve, all else goes on.
func (s *session) renewal(ctx context.Context) {
	if s.renewing || s.Now().Before(s.renew) {
		return
	}
	s.renewing = true
	s.group.Go(func() {
		who, err := s.join(ctx, s.keep(), s.who, "")
		s.post(ctx, func() {
			if s.renewing = false; err != nil {
				s.Log.Error("renew the certificate", zap.Error(err))
				s.renew = s.Now().Add(time.Minute)
				return
			}
			s.Log.Info("renewed the certificate", zap.Time("expires", who.NotAfter))
			s.over = true
		})
	})
}

func (s *session) watchSecret(ctx context.Context) {
	name := s.Link().Secret
	observe(ctx, s, byName(s.api.core, "secrets", namespace, name), &core.Secret{}, func(secret *core.Secret, ok bool) {
		if !ok {
			s.Log.Warn("the Secret with the configuration is not there", zap.String("secret", name))
			secret = &core.Secret{}
			secret.Name = name
			if s.isReleased() != nil && s.isReleased().text != nil {
				return // The node keeps what it has.
			}
		}
		o := offerOf(secret, s.Now())
		if s.offer != nil && bytes.Equal(s.offer.text, o.text) {
			o.since = s.offer.since
		}
		s.offer, s.want = &o, s.factsOf(o.text)
	})
}

// isReleased is what Read returns now, nil for nothing.
func (c *Cluster) isReleased() *offer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.released
}

// watchNode watches the Node by its name or, while that is not known, by the host
// name. An API server takes each watch by a label into account for every write
// of any Node, and lets fewer through: a thousand nodes would wait for each other.
func (s *session) watchNode(name string) {
	if s.unwatch != nil {
		s.unwatch()
	}
	q := query{client: s.api.core, resource: "nodes", labels: hostnameLabel + "=" + s.hostname()}
	if name != "" {
		q = byName(s.api.core, "nodes", "", name)
	}
	var ctx context.Context
	ctx, s.unwatch = context.WithCancel(s.whole)
	s.named = name
	observe(ctx, s, q, &core.Node{}, func(n *core.Node, ok bool) {
		if ctx.Err() == nil {
			s.nodeSeen(n, ok)
		}
	})
}

func (s *session) nodeSeen(n *core.Node, ok bool) {
	switch {
	case ok && s.named == "":
		s.watchNode(n.Name)
	case !ok && s.named != "":
		s.watchNode("")
	}
	if ok && older(n, s.node) {
		return // What the answer to a patch has said already is newer.
	}
	s.node, s.looked = nil, true
	if ok {
		s.node = n
	}
	s.delay = delay(s.node, s.delay)
	name := ""
	if ok {
		name = n.Name
		s.useSecret(n.Labels[secretLabel])
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.link.Node = name
}

// older reports whether n is a state of the Node before the one that is known.
func older(n, known *core.Node) bool {
	if known == nil || n.UID != known.UID {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(n.ResourceVersion, known.ResourceVersion)
	return err == nil && order < 0
}

// useSecret goes on with the Secret of that name, as the Node's label says. A
// label that is gone changes nothing.
func (s *session) useSecret(name string) {
	if name == "" || name == s.Link().Secret {
		return
	}
	if err := s.keep().saveSecret(name); err != nil {
		s.Log.Error("keep the name of the Secret", zap.Error(err))
		return
	}
	s.Log.Info("the Node names another Secret", zap.String("secret", name))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.link.Secret, s.over = name, true
}

// takeOffer releases what the Secret says when it is this node's time.
func (s *session) takeOffer(ctx context.Context) error {
	o, have := s.offer, s.isReleased()
	if o != nil && o.since.After(s.Now()) {
		o.since = s.Now() // The clock was set back.
	}
	switch {
	case o == nil || have != nil && have.version == o.version && bytes.Equal(have.text, o.text):
		return nil
	case have == nil || have.text == nil || bytes.Equal(have.text, o.text):
	case s.Now().Before(o.since.Add(s.delay)):
		s.soon(o.since.Add(s.delay))
		return nil
	}
	step := s.nextStep()
	if step == inplace.Await {
		return nil
	}
	if o.serial && s.node != nil && have != nil && have.text != nil {
		if ok, err := s.takeTurn(ctx, o.secret); err != nil || !ok {
			return err
		}
	}
	if step == inplace.Configure && s.record.Version != o.version {
		if err := s.begin(); err != nil {
			return err
		}
	}
	s.release(*o)
	return nil
}

// report is what the Node's words follow from.
type report struct {
	node  *core.Node
	offer *offer
	// at is the status's, uptime.
	at time.Duration
}

// reportNode makes the Node say how the node stands.
func (s *session) reportNode(ctx context.Context) error {
	if s.node == nil || s.status.Phase == "" || s.reported == (report{s.node, s.offer, s.status.Uptime}) {
		return nil
	}
	version := ""
	if s.offer != nil {
		version = s.offer.version
	}
	said := s.status
	said.Version = s.proven()
	w := wantedOf(s.Config, s.node, said, version)
	if patch := w.patch(s.node); patch != nil {
		n, err := s.api.patchNode(ctx, s.node.Name, "", mergePatch, patch)
		if err != nil {
			return err
		}
		if applied := w.annotations[appliedAnnotation]; applied != nil && s.node.Annotations[appliedAnnotation] != *applied {
			s.event(n, core.EventTypeNormal, "OSCApplied", "the configuration is applied: generation "+s.status.Generation)
		}
		s.node = n
	}
	if said.Version != "" {
		if err := s.keep().joined(); err != nil {
			s.Log.Error("remove what was for joining", zap.Error(err))
		}
	}
	if said.Version != "" && said.Version == version {
		if err := s.firstRecord(); err != nil {
			s.Log.Error("updates in place", zap.Error(err))
		}
	}
	if patch := conditionPatch(s.node, s.status, s.Uptime(), s.Now()); patch != nil {
		n, err := s.api.patchNode(ctx, s.node.Name, "status", strategicPatch, patch)
		if err != nil {
			return err
		}
		s.node = n
	}
	// What waits, or units that are on their way, may come to be otherwise by itself.
	if said.Version == s.status.Version && !slices.ContainsFunc(s.status.Units, func(u status.Unit) bool { return !u.Settled }) {
		s.reported = report{s.node, s.offer, s.status.Uptime}
	}
	return nil
}

// restart is what the Node's annotation asks for: what is under way, and what is
// done and to be taken away there.
type restart struct{ doing, done string }

// restartUnits does what the Node's annotation asks for, beside the session, and
// then takes it away.
func (s *session) restartUnits(ctx context.Context) error {
	if s.node == nil {
		return nil
	}
	switch asked := s.node.Annotations[restartAnnotation]; asked {
	case "", s.restart.doing:
		return nil
	case s.restart.done:
		err := s.change(ctx, wanted{annotations: map[string]*string{restartAnnotation: nil}})
		if err == nil {
			s.restart.done = ""
		}
		return err
	default:
		c := s.Cluster // It goes on in the next session.
		c.restart.doing = asked
		c.others.Go(func() {
			c.restartAll(c.life, restarts(asked))
			c.post(c.life, func() { c.restart = restart{done: asked} })
		})
		return nil
	}
}

// restartAll restarts units and tells how it went.
func (c *Cluster) restartAll(ctx context.Context, units []string) {
	if len(units) == 0 {
		return
	}
	if err := c.Restart(ctx, units); err != nil {
		c.Event(true, restartReason, err.Error())
		return
	}
	c.Event(false, restartReason, "restarted "+strings.Join(units, ", "))
}
