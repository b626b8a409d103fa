package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordination "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/loam-os/loam/agent/inplace"
)

// releasePending releases the pending configuration once the delay has passed
// and the rollout has reached this node.
func (s *session) releasePending(ctx context.Context) error {
	o := s.pending
	have := s.releasedConfig()
	if o == nil || have != nil && have.sum == o.sum {
		return nil
	}

	if o.since.After(s.Now()) {
		o.since = s.Now() // The clock was set back.
	}

	// The delay spreads nodes without a serial rollout.
	changes := have != nil && have.text != nil
	if at := o.since.Add(s.delay); changes && !o.serial && s.Now().Before(at) {
		s.wakeAt(at)
		return nil
	}

	step := s.nextStep()
	if step == inplace.Await {
		return nil
	}

	if o.serial {
		if ok, err := s.mayRollOut(ctx, *o, changes); err != nil || !ok {
			return err
		}
	}

	if err := s.begin(step); err != nil {
		return err
	}

	s.release(*o)
	return nil
}

// rollout is the Lease by which the nodes of a pool apply a configuration one
// after the other. It is watched while the Secret asks for that.
type rollout struct {
	name string
	stop context.CancelFunc

	// lease is the last known Lease, valid if known.
	lease *coordination.Lease
	known bool

	// stale says that a write failed, so the Lease must be read again. The
	// watch reports nothing if nothing was written.
	stale bool
}

// mayRollOut reports whether this node may apply o now, and takes the Lease if
// it can. A new node needs no Lease, since it has no workload to disturb.
// Gardener's authorizer refuses the Lease while there is no Node, so a new node
// does not wait until it has seen the Lease.
func (s *session) mayRollOut(ctx context.Context, o pendingConfig, changes bool) (bool, error) {
	if !s.nodeKnown {
		return false, nil
	}
	if s.node == nil {
		return true, nil
	}

	runs := s.node.Annotations[appliedAnnotation]
	if !changes && (runs == "" || runs == o.label) {
		return true, nil
	}

	if !s.rollout.known {
		return false, nil
	}

	switch t, rest := s.rolloutState(s.rollout.lease); t {
	case leaseOurs:
		return true, nil
	case leaseTaken:
		s.setBlocked("turn of " + *s.rollout.lease.Spec.HolderIdentity)
		s.wakeAt(s.Now().Add(rest))
		return false, nil
	}

	return s.acquireRollout(ctx, o)
}

// rolloutState returns who has the Lease l, which is nil if absent.
func (s *session) rolloutState(l *coordination.Lease) (t leaseState, rest time.Duration) {
	if l == nil {
		return leaseStateOf(nil, s.hostname(), 0)
	}
	uptime := s.Uptime()
	s.observed = s.observed.next(l, uptime)
	return leaseStateOf(l, s.hostname(), uptime-s.observed.at)
}

// errTaken says that another node has the rollout Lease.
var errTaken = errors.New("another node has the Lease")

// acquireRollout takes or renews the Lease to apply o. It returns false if
// another node was faster.
func (s *session) acquireRollout(ctx context.Context, o pendingConfig) (bool, error) {
	holder := s.hostname()
	term := int32(rolloutTerm / time.Second)
	now := meta.NewMicroTime(s.Now())

	return s.putRolloutLease(ctx, func(l *coordination.Lease) {
		l.OwnerReferences = []meta.OwnerReference{{
			APIVersion: "v1",
			Kind:       "Secret",
			Name:       o.secret,
			UID:        o.uid,
		}}

		if h := l.Spec.HolderIdentity; h == nil || *h != holder {
			l.Spec.AcquireTime = &now
		}

		l.Spec.HolderIdentity = &holder
		l.Spec.LeaseDurationSeconds = &term
		l.Spec.RenewTime = &now
	})
}

// putRolloutLease writes the rollout Lease, unless another node has it, and
// reports whether it did. After an error the Lease may or may not have changed:
// the next step reads it again.
func (s *session) putRolloutLease(
	ctx context.Context, edit func(*coordination.Lease),
) (bool, error) {
	unlessTaken := func(l *coordination.Lease) error {
		if t, _ := s.rolloutState(l); t == leaseTaken {
			return errTaken
		}
		edit(l)
		return nil
	}

	l, err := s.api.putLease(ctx, s.rollout.lease, s.rollout.name, unlessTaken)
	s.rollout.lease = l
	if errors.Is(err, errTaken) {
		return false, nil
	}

	s.rollout.stale = err != nil
	return err == nil, err
}

// readRolloutLease reads the rollout Lease.
func (s *session) readRolloutLease(ctx context.Context) error {
	l := &coordination.Lease{}
	err := s.api.lease(s.rollout.name, s.api.coordination.Get()).Do(ctx).Into(l)
	switch {
	case apierrors.IsNotFound(err):
		l = nil
	case err != nil:
		return fmt.Errorf("get Lease %s: %w", s.rollout.name, err)
	}

	s.rollout.lease = l
	s.rollout.stale = false
	return nil
}

// renewOrReleaseRollout releases the Lease once this node runs the new
// configuration and is ready. Until then it renews the Lease, unless the node
// refuses the configuration: then the Lease expires.
func (s *session) renewOrReleaseRollout(ctx context.Context) error {
	if s.pending == nil || !s.pending.serial || s.node == nil {
		s.watchRollout("")
		return nil
	}

	s.watchRollout(s.pending.secret)
	if s.rollout.stale {
		if err := s.readRolloutLease(ctx); err != nil {
			return err
		}
	}

	if t, _ := s.rolloutState(s.rollout.lease); t != leaseOurs {
		return nil
	}

	if s.readyDigest() == s.pending.sum && s.status.Change == nil {
		_, err := s.putRolloutLease(ctx, func(l *coordination.Lease) {
			l.Spec = coordination.LeaseSpec{}
		})
		return err
	}

	if s.status.Offered == s.pending.sum && (s.status.Refused || s.status.Held != nil) {
		return nil
	}

	if at := renewRolloutAt(s.rollout.lease, s.Now()); s.Now().Before(at) {
		s.wakeAt(at)
		return nil
	}

	s.wakeAt(s.Now().Add(rolloutRenew))
	_, err := s.acquireRollout(ctx, *s.pending)
	return err
}

// watchRollout watches the Lease of that name; "" stops watching.
func (s *session) watchRollout(name string) {
	if s.rollout.name == name {
		return
	}

	if s.rollout.stop != nil {
		s.rollout.stop()
	}

	s.rollout = rollout{}
	if name == "" {
		return
	}

	ctx, stop := context.WithCancel(s.ctx)
	s.rollout = rollout{name: name, stop: stop}
	q := byName(s.api.coordination, "leases", namespace, name)
	observe(ctx, s, q, &coordination.Lease{}, func(l *coordination.Lease, ok bool) {
		if s.rollout.name != name {
			return
		}
		s.rollout.known = true
		switch {
		case !ok:
			s.rollout.lease = nil
		case s.rollout.lease == nil || !isOlder(l, s.rollout.lease):
			s.rollout.lease = l // The answer to our own write was newer.
		}
	})
}
