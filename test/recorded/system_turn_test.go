package recorded

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/turns"
	"github.com/loam-os/loam/test/cluster"
)

// Root hashes of the systems that the nodes are upgraded to.
var (
	hashTwo   = strings.Repeat("2a", 32)
	hashThree = strings.Repeat("3b", 32)
)

// upgrades are the upgrades of a node, as the test has them stand. They
// implement loop.Watched.
type upgrades struct {
	changed chan struct{}

	mu    sync.Mutex
	state status.Upgrade
}

func newUpgrades() *upgrades { return &upgrades{changed: make(chan struct{}, 1)} }

// State implements loop.Watched.
func (u *upgrades) State() *status.Upgrade {
	u.mu.Lock()
	defer u.mu.Unlock()
	state := u.state
	return &state
}

// Changed implements loop.Watched.
func (u *upgrades) Changed() <-chan struct{} { return u.changed }

func (u *upgrades) set(state status.Upgrade) {
	u.mu.Lock()
	u.state = state
	u.mu.Unlock()
	select {
	case u.changed <- struct{}{}:
	default:
	}
}

// upgrade has the node upgrade until ctx ends, or its upgrade is over: it falls
// back. restart is called in its turn.
func (u *upgrades) upgrade(
	ctx context.Context, node *Node, version, hash string, restart func(),
) {
	u.set(status.Upgrade{Phase: "armed", To: version, Target: hash})
	for node.Cluster.AwaitTurn(version, hash) != "" {
		select {
		case <-ctx.Done():
			return
		case <-node.Cluster.TurnChanged():
		}
	}

	restart()
	u.set(status.Upgrade{Failed: []status.FailedSystem{{
		Version:  version,
		RootHash: hash,
		Reason:   "no kubelet",
	}}})
}

// TestASystemThatFallsBackStopsAtTheFirstNode has all nodes upgrade at once. A
// system that fails halts its own rollout, also after the ledger was deleted,
// and neither that of a configuration nor that of another system.
func TestASystemThatFallsBackStopsAtTheFirstNode(t *testing.T) {
	t.Parallel()
	f := newPool(t, 3, `{"maxUnavailable": 2}`, func(context.Context, string) error { return nil })

	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	var mu sync.Mutex
	restarted := map[string][]string{}
	upgrade := func(version, hash string) {
		for i, node := range f.nodes {
			name := fmt.Sprintf("node-%d", i)
			group.Go(func() {
				f.upgrades[i].upgrade(ctx, node, version, hash, func() {
					if marked, err := f.marks(); err != nil || !slices.Contains(marked, name) {
						t.Errorf("%s restarts while %v have a turn: %v", name, marked, err)
					}
					mu.Lock()
					defer mu.Unlock()
					restarted[version] = append(restarted[version], name)
				})
			})
		}
	}
	halted := func(hash string) {
		f.await("the halt", func() error {
			l := f.ledger()
			if l == nil {
				return errors.New("no ledger")
			}
			r := l.Systems[turns.SystemTarget(hash)]
			if !strings.HasSuffix(r.Halted, ": version 2.0.0: no kubelet") || r.Failed != 1 ||
				r.Version != "2.0.0" {
				return fmt.Errorf("%+v", l)
			}
			return nil
		})
	}

	f.says(osc("first")) // With it, the nodes learn of their policy.
	f.reached(osc("first"), 3)
	f.settled()
	upgrade("2.0.0", hashTwo)
	halted(hashTwo)
	f.settled()
	f.must("DELETE", ledgerLease, "")
	halted(hashTwo)

	f.says(osc("two"))
	f.reached(osc("two"), 3)
	if l := f.settled(); l.Halted != "" || l.Done != 3 {
		t.Errorf("ledger %+v", l)
	}

	mu.Lock()
	defer mu.Unlock()
	if got := restarted["2.0.0"]; len(got) != 1 {
		t.Errorf("%v restarted", got)
	}
}

// TestATurnForASystemOutlivesTheRestart stops the node in its turn, and starts
// it with the other system.
func TestATurnForASystemOutlivesTheRestart(t *testing.T) {
	t.Parallel()
	w := newFixture(t, cluster.Options{Controllers: true})
	u := newUpgrades()
	w.adjust = func(n *Node) { n.Agent.Upgrades = u }
	w.policy = `{"maxUnavailable": 1}`
	w.join(osc("one"))
	w.write(kubeletCertificate, w.kubelet("node-1"))
	w.must("PATCH", nodes+"/node-1/status",
		`{"status": {"conditions": [{"type": "Ready", "status": "True"}]}}`)

	u.set(status.Upgrade{Phase: "armed", To: "3.0.0", Target: hashThree})
	w.await("its turn", func() error {
		if why := w.node.Cluster.AwaitTurn("3.0.0", hashThree); why != "" {
			return errors.New(why)
		}
		return nil
	})

	n, conditions, err := w.drainOf()
	if err != nil || !n.Spec.Unschedulable ||
		!slices.Equal(conditions, []string{"Drained", "MaintenanceInProgress"}) {
		t.Errorf("before the restart: %+v %v %v", n, conditions, err)
	}

	w.stop()
	u.set(status.Upgrade{Phase: "trial", To: "3.0.0", Target: hashThree})
	w.adjust = func(n *Node) {
		n.Agent.Upgrades = u
		n.Agent.Status.RootHash = hashThree
		n.Agent.Status.ImageVersion = "3.0.0"
	}
	w.startAgain()
	w.poke()
	if l := w.ledger(); len(l.Holders) != 1 || len(l.Systems) != 1 {
		t.Errorf("on trial: %+v", l)
	}
	if n, _, err := w.drainOf(); err != nil || !n.Spec.Unschedulable {
		t.Errorf("on trial: %+v %v", n, err)
	}

	u.set(status.Upgrade{})
	w.await("the end of the turn", func() error {
		l := w.ledger()
		if r := l.Systems[turns.SystemTarget(hashThree)]; len(l.Holders) != 0 || r.Done != 1 {
			return fmt.Errorf("%+v", l)
		}
		return nil
	})
	w.carries("loam.dev/turn", "")
	w.released(false)
}
