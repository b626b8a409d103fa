package cluster

import (
	"sync"

	"github.com/loam-os/loam/agent/turns"
)

// system is another system that the node is to restart with; zero if none.
type system struct{ target, version string }

// systemTurn is how an upgrade waits for the node's turn. Several goroutines use
// it.
type systemTurn struct {
	// changed is signalled when await has another answer.
	changed chan struct{}

	mu sync.Mutex

	// wanted is the system that the node is to restart with. Before the first
	// question, it is not known.
	wanted  system
	isKnown bool

	// free says that the nodes take no turns. granted is the target for which
	// the node has its turn, "" if none.
	free    bool
	granted string
}

func newSystemTurn(free bool) *systemTurn {
	return &systemTurn{changed: make(chan struct{}, 1), free: free}
}

// await records the system that the node is to restart with. It reports whether
// the node may, and whether the request is new.
func (s *systemTurn) await(wanted system) (may, isNew bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	isNew = !s.isKnown || s.wanted != wanted
	s.wanted = wanted
	s.isKnown = true
	return s.free || (wanted.target != "" && wanted.target == s.granted), isNew
}

// want returns the wanted system, false if that is not known yet. A grant for
// another one ends: a turn that the node gives after that is not used.
func (s *systemTurn) want() (system, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wanted.target != s.granted {
		s.granted = ""
	}
	return s.wanted, s.isKnown
}

// grant says whether nodes take turns, and for which system the node may restart in
// its turn, "" for none. Only the wanted one is granted.
func (s *systemTurn) grant(free bool, target string) {
	s.mu.Lock()
	before := s.free || s.granted != ""
	s.free = free
	s.granted = ""
	if target == s.wanted.target {
		s.granted = target
	}
	may := s.free || s.granted != ""
	s.mu.Unlock()

	if may && !before {
		signal(s.changed)
	}
}

// grantedSystem returns the system that the node may restart with in its turn: it is
// prepared for that. It returns "" for none.
func grantedSystem(w world) string {
	if !w.turn.isForSystem() || w.turn.isVoid(w.node) || !w.turn.isPrepared() {
		return ""
	}
	return w.turn.kept.Holder.Target
}

// AwaitTurn returns why the node may not restart yet with the system of that
// version and verity root hash, "" if it may. TurnChanged is signalled when it
// may. Without a version, the node is not to restart now.
func (c *Cluster) AwaitTurn(version, rootHash string) (why string) {
	may, isNew := c.system.await(system{turns.SystemTarget(rootHash), version})
	if isNew {
		signal(c.inbox.wake)
	}
	if may {
		return ""
	}
	return "waits for its turn among the nodes of its pool"
}

// TurnChanged is signalled when the answer of AwaitTurn has changed.
func (c *Cluster) TurnChanged() <-chan struct{} { return c.system.changed }
