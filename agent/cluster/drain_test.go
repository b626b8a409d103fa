package cluster

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"

	"github.com/loam-os/loam/agent/drain"
	"github.com/loam-os/loam/agent/inplace"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/turns"
)

// holding is a node that has its turn for a change that stops pods.
func holding(w world) world {
	w = withPolicy(w)
	w.turn.classified.class = turns.Pods
	w.turn.kept = turns.Turn{
		Phase:  turns.Holding,
		Holder: turns.Holder{ID: "1", Target: "new", Class: turns.Pods},
	}
	return w
}

// drained is w once its pods are gone.
func drained(w world) world {
	w.turn.drain = drainState{turn: "1", done: true, checked: true}
	w.node = w.node.DeepCopy()
	w.node.Annotations[drain.Annotation] = "{}"
	return w
}

func TestDecideDrain(t *testing.T) {
	for _, tt := range []struct {
		name    string
		world   world
		edit    func(w *world)
		update  inplace.Step
		want    drainAction
		release releaseAction
	}{
		{"in its turn", newWorld(), func(*world) {}, inplace.Nothing, drainBegin, releaseWait},
		{"before its turn", newWorld(), func(w *world) {
			w.turn.kept.Phase = turns.Taking
		}, inplace.Nothing, drainNothing, releaseWait},
		{"a change that stops no pods", newWorld(), func(w *world) {
			w.turn.classified.class = turns.Kubelet
		}, inplace.Nothing, drainNothing, releaseNow},
		{"a change that is not classified again yet", newWorld(), func(w *world) {
			w.turn.classified = classified{}
		}, inplace.Nothing, drainBegin, releaseWait},
		{"another change, which is not classified yet", newWorld(), func(w *world) {
			w.turn.classified = classified{}
			w.turn.kept.Holder.Target = "other"
			w.turn.kept.Holder.Class = turns.Kubelet
		}, inplace.Nothing, drainNothing, releaseWait},
		{"a node that Gardener drains", newWorld(), func(*world) {}, inplace.Configure,
			drainNothing, releaseNow},
		{"a policy that cannot be read", newWorld(), func(w *world) {
			w.pending.policyErr = os.ErrInvalid
		}, inplace.Nothing, drainNothing, releaseWait},
		{"a change that a killed agent completed", newWorld(), func(w *world) {
			w.status.Version = "new"
		}, inplace.Nothing, drainNothing, releaseNow},
		{"once the pods are gone", drained(newWorld()), func(*world) {}, inplace.Nothing,
			drainNothing, releaseNow},
		{"before it has read the ledger once more", drained(newWorld()), func(w *world) {
			w.turn.drain.checked = false
		}, inplace.Nothing, drainNothing, releaseWait},
		{"drained in another turn", drained(newWorld()), func(w *world) {
			w.turn.drain.turn = "0"
		}, inplace.Nothing, drainBegin, releaseWait},
		{"postponed", newWorld(), func(w *world) {
			w.turn.drain = drainState{turn: "1", postponed: "a budget"}
		}, inplace.Nothing, drainNothing, releaseWait},
		{"while it gives its turn back", newWorld(), func(w *world) {
			w.turn.kept.Phase = turns.Returning
		}, inplace.Nothing, drainNothing, releaseWait},

		{"while it changes", drained(runningNew()), func(*world) {}, inplace.Nothing,
			drainNothing, releaseWait},
		{"once it is proven", drained(runningNew()), func(w *world) {
			w.ready = "new"
			w.node.Status.Conditions = []core.NodeCondition{{
				Type:   core.NodeReady,
				Status: core.ConditionTrue,
			}}
		}, inplace.Nothing, drainRelease, releaseWait},
		{"once it is reverted", drained(runningNew()), func(w *world) {
			w.status.Refusal = status.Reverted
		}, inplace.Nothing, drainRelease, releaseWait},
		{"after its turn, which a power cut has ended", drained(runningNew()), func(w *world) {
			w.turn.kept.Phase = turns.Over
		}, inplace.Nothing, drainRelease, releaseWait},
		{"a cordon of others after its turn", runningNew(), func(w *world) {
			w.turn.kept.Phase = turns.Over
			w.node.Spec.Unschedulable = true
		}, inplace.Nothing, drainNothing, releaseWait},
		{"before the agent has seen the Node", drained(runningNew()), func(w *world) {
			w.turn.kept.Phase = turns.Over
			w.fresh = false
		}, inplace.Nothing, drainNothing, releaseWait},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := holding(tt.world)
			tt.edit(&w)
			c := changesOf(w, tt.update, system{}, false)[0]
			if got := decideDrain(w, c); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
			if got, _ := decideRelease(w, tt.update, turn{}); got != tt.release {
				t.Errorf("%s of the configuration, want %s", got, tt.release)
			}
		})
	}
}

// restarting is a node that has its turn for another system, and knows that it
// is to restart with it.
func restarting() (w world, wanted system) {
	wanted = system{turns.SystemTarget("89abcdef"), "2.0.0"}
	w = withPolicy(newWorld())
	w.status.Upgrade = &status.Upgrade{Phase: "armed", Target: "89abcdef"}
	w.turn.kept = turns.Turn{
		Phase: turns.Holding,
		Holder: turns.Holder{
			ID:      "1",
			Target:  wanted.target,
			Version: wanted.version,
			Class:   turns.Reboot,
		},
	}
	return w, wanted
}

func TestDecideDrainBeforeARestart(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(w *world, wanted *system, isKnown *bool)
		want drainAction
	}{
		{"in its turn", func(*world, *system, *bool) {}, drainBegin},
		{"before its turn", func(w *world, _ *system, _ *bool) {
			w.turn.kept.Phase = turns.Taking
		}, drainNothing},
		{"before the upgrade asks for it again", func(_ *world, _ *system, isKnown *bool) {
			*isKnown = false
		}, drainNothing},
		{"with a policy that cannot be read", func(w *world, _ *system, _ *bool) {
			w.pending.policyErr = os.ErrInvalid
		}, drainNothing},
		{"once the pods are gone", func(w *world, _ *system, _ *bool) {
			*w = drained(*w)
		}, drainNothing},
		{"postponed", func(w *world, _ *system, _ *bool) {
			w.turn.drain = drainState{turn: "1", postponed: "a budget"}
		}, drainNothing},
		{"on trial", func(w *world, wanted *system, _ *bool) {
			*w = drained(*w)
			w.turn.drain = drainState{} // The agent has started since.
			w.status.Upgrade.Phase = "trial"
			*wanted = system{}
		}, drainNothing},
		{"fallen back", func(w *world, _ *system, isKnown *bool) {
			*w = drained(*w)
			w.turn.drain = drainState{}
			w.status.Upgrade = &status.Upgrade{Failed: []status.FailedSystem{
				{Version: "2.0.0", RootHash: "89abcdef", Reason: "no kubelet"},
			}}
			*isKnown = false
		}, drainRelease},
		{"the window closes after the drain", func(w *world, wanted *system, _ *bool) {
			*w = drained(*w)
			*wanted = system{}
		}, drainRelease},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, wanted := restarting()
			isKnown := true
			tt.edit(&w, &wanted, &isKnown)
			c := changesOf(w, inplace.Nothing, wanted, isKnown)[0]
			if got := decideDrain(w, c); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
			if got, _ := decideRelease(w, inplace.Nothing, turn{}); got != releaseWait {
				t.Errorf("%s of the configuration in the turn of a system", got)
			}
		})
	}
}

// TestTheRestartWaitsForTheDrain: a turn alone is no grant.
func TestTheRestartWaitsForTheDrain(t *testing.T) {
	w, wanted := restarting()
	s := newSystemTurn(false)
	s.await(wanted)
	s.grant(false, grantedSystem(w))
	if may, _ := s.await(wanted); may {
		t.Error("it may restart with its pods")
	}

	w = drained(w)
	w.turn.drain.checked = false
	s.grant(false, grantedSystem(w))
	if may, _ := s.await(wanted); may {
		t.Error("it may restart before it has read the ledger once more")
	}
	if c := changesOf(w, inplace.Nothing, wanted, true)[0]; !c.checks || c.drains {
		t.Errorf("before that: %+v", c)
	}

	s.grant(false, grantedSystem(drained(w)))
	<-s.changed
	if may, _ := s.await(wanted); !may {
		t.Error("it may not restart although its pods are gone")
	}
}

func TestADrainThatIsPostponedGivesTheTurnBack(t *testing.T) {
	system, wanted := restarting()
	for _, w := range []world{holding(newWorld()), system} {
		w.turn.drain = drainState{turn: "1", postponed: "a budget"}
		c := changesOf(w, inplace.Nothing, wanted, true)[0]
		if c.need != turns.NeedPostpone || c.why != "a budget" || !c.isOver() {
			t.Errorf("%+v", c)
		}

		w.turn.kept.Holder.ID = "2"
		if c := changesOf(w, inplace.Nothing, wanted, true)[0]; c.isOver() {
			t.Errorf("in the next turn: %+v", c)
		}
	}
}

// TestAReleasedNodeIsDrainedAgain has an upgrade that is given up, and wanted
// again before the turn is given back.
func TestAReleasedNodeIsDrainedAgain(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	w, wanted := restarting()
	w = drained(w)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // No API server is needed.
	var group sync.WaitGroup
	c := &drainController{
		env:     Env{Root: root, Now: func() time.Time { return noon }},
		jobs:    jobs{ctx, &group, func(context.Context, func()) {}},
		updates: &updates{},
		system:  newSystemTurn(false),
	}

	c.system.await(system{})
	if _, err := c.step(ctx, &w); err != nil || c.running != drainRelease {
		t.Fatalf("%s: %v", c.running, err)
	}
	group.Wait()

	c.system.await(wanted)
	c.system.grant(false, grantedSystem(w))
	if may, _ := c.system.await(wanted); may {
		t.Error("it may restart although its Node is uncordoned")
	}
	change := changesOf(w, inplace.Nothing, wanted, true)[0]
	if got := decideDrain(w, change); got != drainBegin {
		t.Errorf("%s, want %s", got, drainBegin)
	}
}
