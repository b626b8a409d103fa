package cluster

import (
	"context"
	"time"

	coordination "k8s.io/api/coordination/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// turns is a Lease by which the nodes of a pool apply one after the other.
type turns struct {
	// name is that of the Secret too; "" while nobody looks.
	name string
	stop context.CancelFunc
	// lease is what is known, once seen.
	lease *coordination.Lease
	seen  bool
}

// takeTurn reports whether it is this node's turn, and makes it so if it can.
func (s *session) takeTurn(ctx context.Context, name string) (bool, error) {
	if s.turns.name != name {
		s.watchTurns(name)
		return false, nil
	}
	if !s.turns.seen {
		return false, nil
	}
	switch t, until := turnOf(s.turns.lease, s.hostname(), s.Now()); t {
	case mine:
		return true, nil
	case await:
		s.soon(until)
		return false, nil
	}
	holder, term, now := s.hostname(), int32(serialTerm/time.Second), meta.NewMicroTime(s.Now())
	l, err := s.api.putLease(ctx, s.turns.lease, name, func(l *coordination.Lease) {
		l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds, l.Spec.AcquireTime, l.Spec.RenewTime = &holder, &term, &now, &now
	})
	if err != nil {
		return false, err
	}
	s.turns.lease = l
	return true, nil
}

// watchTurns looks at the Lease until the turn is given on.
func (s *session) watchTurns(name string) {
	s.dropTurns()
	ctx, stop := context.WithCancel(s.whole)
	s.turns = turns{name: name, stop: stop}
	observe(ctx, s, byName(s.api.coordination, "leases", namespace, name), &coordination.Lease{}, func(l *coordination.Lease, ok bool) {
		if s.turns.name != name {
			return
		}
		if s.turns.lease, s.turns.seen = nil, true; ok {
			s.turns.lease = l
		}
	})
}

// giveTurn lets the next node have its turn once this one runs what it took its
// turn for.
func (s *session) giveTurn(ctx context.Context) error {
	if s.turns.name == "" || s.offer == nil || s.proven() != s.offer.version {
		return nil
	}
	if t, _ := turnOf(s.turns.lease, s.hostname(), s.Now()); t == mine {
		_, err := s.api.putLease(ctx, s.turns.lease, s.turns.name, func(l *coordination.Lease) { l.Spec = coordination.LeaseSpec{} })
		if err != nil {
			s.turns.lease = nil // It may have changed.
			return err
		}
	}
	s.dropTurns()
	return nil
}

func (s *session) dropTurns() {
	if s.turns.stop != nil {
		s.turns.stop()
	}
	s.turns = turns{}
}
