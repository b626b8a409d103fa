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

// takeOffer releases what the Secret says when it is this node's time.
func (s *session) takeOffer(ctx context.Context) error {
	o, have := s.offer, s.isReleased()
	if o == nil || have != nil && have.sum == o.sum {
		return nil
	}

	if o.since.After(s.Now()) {
		o.since = s.Now() // The clock was set back.
	}

	// The delay spreads nodes that do not take turns.
	changes := have != nil && have.text != nil
	if at := o.since.Add(s.delay); changes && !o.serial && s.Now().Before(at) {
		s.soon(at)
		return nil
	}

	step := s.nextStep()
	if step == inplace.Await {
		return nil
	}

	if o.serial {
		if ok, err := s.isTurn(ctx, *o, changes); err != nil || !ok {
			return err
		}
	}

	if err := s.begin(step); err != nil {
		return err
	}

	s.release(*o)
	return nil
}

// turns is a Lease by which the nodes of a pool apply one after the other,
// watched as long as the Secret asks for that.
type turns struct {
	name string
	stop context.CancelFunc

	// lease is what is known, once seen.
	lease *coordination.Lease
	seen  bool

	// unsure says that a write has failed: nothing is known of the Lease until
	// it is read, and the watch has nothing to tell if nothing was written.
	unsure bool
}

// isTurn reports whether it is this node's turn to run o, and makes it so if it
// can. A node that is new needs no turn: there is nothing that it could
// disturb. Gardener's authorizer refuses the Lease while there is no Node, so a
// new node does not wait until it has seen the Lease.
func (s *session) isTurn(ctx context.Context, o offer, changes bool) (bool, error) {
	if !s.looked {
		return false, nil
	}
	if s.node == nil {
		return true, nil
	}

	runs := s.node.Annotations[appliedAnnotation]
	if !changes && (runs == "" || runs == o.label) {
		return true, nil
	}

	if !s.turns.seen {
		return false, nil
	}

	switch t, rest := s.turnOf(s.turns.lease); t {
	case mine:
		return true, nil
	case await:
		s.waits("turn of " + *s.turns.lease.Spec.HolderIdentity)
		s.soon(s.Now().Add(rest))
		return false, nil
	}

	return s.writeTurn(ctx, o)
}

// turnOf says whose turn it is by the Lease, nil if there is none.
func (s *session) turnOf(l *coordination.Lease) (t turn, rest time.Duration) {
	if l == nil {
		return turnOf(nil, s.hostname(), 0)
	}
	uptime := s.Uptime()
	s.sighting = s.sighting.next(l, uptime)
	return turnOf(l, s.hostname(), uptime-s.sighting.at)
}

// errTaken says that a turn is another node's.
var errTaken = errors.New("another node has the turn")

// writeTurn takes the turn to run o, or renews it, and reports whether it
// could: another node may have been faster.
func (s *session) writeTurn(ctx context.Context, o offer) (bool, error) {
	holder := s.hostname()
	term := int32(serialTerm / time.Second)
	now := meta.NewMicroTime(s.Now())

	return s.putTurn(ctx, func(l *coordination.Lease) {
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

// putTurn writes the Lease of turns, unless another node has it, and reports
// whether it did. After an error, the Lease may have changed, and what is known
// of it may be old: the next step reads it again.
func (s *session) putTurn(ctx context.Context, edit func(*coordination.Lease)) (bool, error) {
	l, err := s.api.putLease(ctx, s.turns.lease, s.turns.name, func(l *coordination.Lease) error {
		if t, _ := s.turnOf(l); t == await {
			return errTaken
		}
		edit(l)
		return nil
	})

	s.turns.lease = l
	if errors.Is(err, errTaken) {
		return false, nil
	}

	s.turns.unsure = err != nil
	return err == nil, err
}

// readTurn reads the Lease of turns.
func (s *session) readTurn(ctx context.Context) error {
	l := &coordination.Lease{}
	err := s.api.lease(s.turns.name, s.api.coordination.Get()).Do(ctx).Into(l)
	switch {
	case apierrors.IsNotFound(err):
		l = nil
	case err != nil:
		return fmt.Errorf("get Lease %s: %w", s.turns.name, err)
	}

	s.turns.lease = l
	s.turns.unsure = false
	return nil
}

// giveTurn lets the next node have its turn once this one runs what it took its
// turn for, and that has proven itself. Until then it renews its turn, unless
// it does not do what it took it for: then the turn expires.
func (s *session) giveTurn(ctx context.Context) error {
	if s.offer == nil || !s.offer.serial || s.node == nil {
		s.watchTurns("")
		return nil
	}

	s.watchTurns(s.offer.secret)
	if s.turns.unsure {
		if err := s.readTurn(ctx); err != nil {
			return err
		}
	}

	if t, _ := s.turnOf(s.turns.lease); t != mine {
		return nil
	}

	if s.proven() == s.offer.sum && s.status.Change == nil {
		_, err := s.putTurn(ctx, func(l *coordination.Lease) { l.Spec = coordination.LeaseSpec{} })
		return err
	}

	if s.status.Offered == s.offer.sum && (s.status.Refused || s.status.Held != nil) {
		return nil
	}

	if at := renewTurnAt(s.turns.lease, s.Now()); s.Now().Before(at) {
		s.soon(at)
		return nil
	}

	s.soon(s.Now().Add(turnRenew))
	_, err := s.writeTurn(ctx, *s.offer)
	return err
}

// watchTurns looks at the Lease of that name, "" for none.
func (s *session) watchTurns(name string) {
	if s.turns.name == name {
		return
	}

	if s.turns.stop != nil {
		s.turns.stop()
	}

	s.turns = turns{}
	if name == "" {
		return
	}

	ctx, stop := context.WithCancel(s.whole)
	s.turns = turns{name: name, stop: stop}
	observe(ctx, s, byName(s.api.coordination, "leases", namespace,
		name), &coordination.Lease{}, func(l *coordination.Lease, ok bool) {
		if s.turns.name != name {
			return
		}
		s.turns.seen = true
		switch {
		case !ok:
			s.turns.lease = nil
		case s.turns.lease == nil || !olderVersion(l, s.turns.lease):
			s.turns.lease = l // What the answer to a write has said already is newer.
		}
	})
}
