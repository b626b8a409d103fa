package rollout

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/turns"
	"github.com/loam-os/loam/agent/window"
)

// policy lets that many nodes be away.
func policy(most int) turns.Policy {
	return turns.Policy{
		MaxUnavailable: turns.Amount{Number: most},
		HardMax:        turns.Amount{Number: most},
		Chunks:         []turns.Amount{{Number: 1}, {Percent: 100}},
		Overdue: map[turns.Class]time.Duration{
			turns.Kubelet: 10 * time.Minute,
			turns.Reboot:  30 * time.Minute,
		},
	}
}

// fleetOf is a fleet in which as many nodes may be away.
func fleetOf(size, away int, left faults) scenario {
	return scenario{
		name:   fmt.Sprintf("%d nodes, %d away, faults %v", size, away, left),
		size:   size,
		policy: policy(away),
		left:   left,
		next:   turns.Next,
		later:  turns.Seen.Later,
	}
}

// withFailures is s with changes that fail on each node.
func (s scenario) withFailures() scenario {
	s.name += ", all fail"
	s.bad = [most]bool{true, true, true, true}
	return s
}

// withClone is s with a clone of the first machine in place of the last.
func (s scenario) withClone() scenario {
	s.name += ", a clone"
	s.clone = true
	return s
}

// withZones is s with two zones, of each of which one node may be away.
func (s scenario) withZones() scenario {
	s.name += ", 1 of a zone"
	s.zones = [most]string{"a", "a", "b", "b"}
	s.policy.PerZone = turns.Amount{Number: 1}
	return s
}

// withRacks is s with two racks, of each of which one node may be away.
func (s scenario) withRacks() scenario {
	s.name += ", 1 of a rack"
	s.racks = [most]string{"a", "a", "b", "b"}
	s.policy.PerRack = turns.Amount{Number: 1}
	s.policy.RackLabel = "rack"
	return s
}

// withHardMax is s with another limit for people in a hurry.
func (s scenario) withHardMax(limit int) scenario {
	s.name += fmt.Sprintf(", at most %d", limit)
	s.policy.HardMax = turns.Amount{Number: limit}
	return s
}

// withWindow is s with a maintenance window, which is open at the start.
func (s scenario) withWindow() scenario {
	s.name += ", a window"
	w, err := window.Parse("10:00-14:00")
	if err != nil {
		panic(err)
	}
	s.policy.Windows = []window.Window{w.In(time.UTC)}
	return s
}

// withCanaries is s with as many canaries, the last machines.
func (s scenario) withCanaries(n int) scenario {
	s.name += fmt.Sprintf(", %d canaries", n)
	for i := s.size - n; i < s.size; i++ {
		s.canaries[i] = true
	}
	return s
}

// withControlPlanes is s with two machines that are control planes.
func (s scenario) withControlPlanes() scenario {
	s.name += ", control planes"
	s.controlPlanes[0] = true
	s.controlPlanes[1] = true
	return s
}

// withPin is s with a last machine that is pinned.
func (s scenario) withPin() scenario {
	s.name += ", the last pinned"
	s.pinned[s.size-1] = true
	return s
}

// withDrains is s with nodes that are drained in their turn.
func (s scenario) withDrains() scenario {
	s.name += ", drained"
	s.drains = true
	return s
}

// withUpgrades is s with a last machine that is upgraded, while the others
// change their configuration. If all fail, two are upgraded.
func (s scenario) withUpgrades() scenario {
	s.name += ", upgrades"
	s.upgrades[s.size-1] = true
	if s.bad[0] {
		s.upgrades[s.size-2] = true
	}
	return s
}

// quick are small enough for each test run.
func quick() []scenario {
	return []scenario{
		fleetOf(2, 1, faults{kill: 2, loss: 1}),
		fleetOf(3, 1, faults{loss: 1}),
		fleetOf(3, 2, faults{kill: 1}),
		fleetOf(2, 1, faults{clock: 1, kill: 1}),
		fleetOf(2, 1, faults{loss: 1, again: 1}),
		fleetOf(2, 1, faults{kill: 1, delete: 1, again: 1}),
		fleetOf(3, 1, faults{postpone: 1}).withUpgrades(),
		fleetOf(2, 1, faults{postpone: 2, kill: 1, loss: 1}).withUpgrades(),
		fleetOf(2, 2, faults{postpone: 1, kill: 1, delete: 1}).withFailures().withUpgrades(),
		fleetOf(2, 1, faults{giveUp: 1, kill: 1, loss: 1}).withUpgrades(),
		fleetOf(2, 1, faults{kill: 1, delete: 1, loss: 1}),
		fleetOf(2, 1, faults{delete: 2}),
		fleetOf(3, 2, faults{loss: 1}).withFailures(),
		fleetOf(3, 1, faults{}).withClone(),
		fleetOf(3, 2, faults{}).withZones(),
		fleetOf(3, 2, faults{}).withRacks(),
		fleetOf(2, 1, faults{hour: 2}),
		fleetOf(2, 1, faults{pause: 1, delete: 1}),
		fleetOf(2, 2, faults{pause: 1, kill: 1}).withDrains().withUpgrades(),
		fleetOf(2, 2, faults{delete: 1}).withDrains().withFailures(),
		fleetOf(3, 1, faults{hurry: 1}).withHardMax(2),
		fleetOf(2, 1, faults{hurry: 1, hour: 1}).withFailures(),
		fleetOf(2, 1, faults{shut: 2, hurry: 1}).withWindow(),
		fleetOf(2, 1, faults{shut: 1, kill: 1}).withWindow().withUpgrades(),
		fleetOf(3, 3, faults{loss: 1}).withControlPlanes(),
		fleetOf(2, 2, faults{kill: 1, delete: 1}).withControlPlanes(),
		fleetOf(3, 2, faults{}).withUpgrades(),
		fleetOf(2, 1, faults{kill: 1, delete: 1}).withUpgrades(),
		fleetOf(2, 2, faults{delete: 2}).withFailures(),
		fleetOf(3, 3, faults{loss: 1}).withFailures().withUpgrades(),
		fleetOf(2, 1, faults{rebirth: 1}).withFailures().withUpgrades(),
		fleetOf(2, 1, faults{delete: 1, rebirth: 1}).withFailures().withUpgrades(),
		fleetOf(3, 2, faults{}).withCanaries(1),
		fleetOf(3, 2, faults{}).withCanaries(2).withPin(),
		fleetOf(2, 2, faults{kill: 1, delete: 1}).withCanaries(1),
		fleetOf(2, 2, faults{postpone: 1, loss: 1}).withCanaries(1),
		fleetOf(2, 2, faults{off: 1, delete: 1, kill: 1}).withCanaries(1),
	}
}

// thorough take hours of one processor in all, and gigabytes.
func thorough() []scenario {
	var all []scenario
	for _, away := range []int{1, 2} {
		all = append(all,
			fleetOf(3, away, faults{delete: 1}),
			fleetOf(3, away, faults{rebirth: 1}),
			fleetOf(3, away, faults{clock: 1}),
			fleetOf(3, away, faults{kill: 2}),
			fleetOf(3, away, faults{postpone: 1, kill: 1}),
			fleetOf(3, away, faults{postpone: 1, kill: 1}).withUpgrades(),
			fleetOf(3, away, faults{postpone: 1, loss: 1}).withFailures().withUpgrades(),
			fleetOf(3, away, faults{kill: 1, loss: 1}),
			fleetOf(3, away, faults{delete: 1, loss: 1}),
			fleetOf(3, away, faults{delete: 1}).withFailures(),
			fleetOf(3, away, faults{kill: 1}).withUpgrades(),
			fleetOf(3, away, faults{delete: 1}).withUpgrades(),
			fleetOf(3, away, faults{delete: 1}).withFailures().withUpgrades(),
			fleetOf(3, away, faults{hour: 1, kill: 1}),
			fleetOf(3, away, faults{pause: 1, loss: 1}),
			fleetOf(3, away, faults{hurry: 1, delete: 1}).withHardMax(2),
			fleetOf(3, away, faults{shut: 1, hour: 1}).withWindow(),
			fleetOf(4, away, faults{}),
			fleetOf(4, away, faults{loss: 1}),
			fleetOf(4, away, faults{kill: 1}),
			fleetOf(4, away, faults{delete: 1}),
		)
	}
	return append(all,
		fleetOf(2, 2, faults{hour: 1, clock: 1}).withUpgrades(),
		fleetOf(3, 1, faults{again: 1}),
		fleetOf(2, 1, faults{loss: 1, delete: 1, rebirth: 1, again: 1}),
		fleetOf(2, 1, faults{kill: 1, loss: 1, again: 2}).withUpgrades(),
		fleetOf(3, 1, faults{postpone: 2}),
		fleetOf(3, 1, faults{postpone: 1, giveUp: 1}).withUpgrades(),
		fleetOf(2, 1, faults{giveUp: 1, delete: 1, rebirth: 1}).withUpgrades(),
		fleetOf(2, 1, faults{postpone: 1, delete: 1, rebirth: 1}),
		fleetOf(2, 1, faults{postpone: 1, delete: 1, rebirth: 1}).withFailures().withUpgrades(),
		fleetOf(3, 2, faults{delete: 1}).withCanaries(1),
		fleetOf(3, 2, faults{off: 1}).withCanaries(1),
		fleetOf(3, 2, faults{}).withCanaries(1).withFailures(),
		fleetOf(3, 1, faults{}).withPin(),
		fleetOf(3, 2, faults{kill: 1}).withCanaries(2),
		fleetOf(3, 3, faults{off: 1, postpone: 1, loss: 1}).withCanaries(2).withFailures(),
		fleetOf(4, 2, faults{}).withCanaries(2).withPin(),
		fleetOf(2, 1, faults{kill: 1, delete: 2}),
		fleetOf(2, 1, faults{kill: 1, delete: 1, rebirth: 1}),
		fleetOf(3, 1, faults{delete: 1}).withClone(),
		fleetOf(3, 2, faults{delete: 1}).withZones(),
		fleetOf(4, 2, faults{}).withZones(),
		fleetOf(3, 2, faults{delete: 1}).withRacks(),
		fleetOf(4, 2, faults{}).withZones().withRacks(),
	)
}

// TestEveryInterleaving walks the quick scenarios, and the thorough ones if
// LOAM_ROLLOUT is set. In short mode, three nodes have no faults, and no ledger is
// deleted where a node is born again.
func TestEveryInterleaving(t *testing.T) {
	all := quick()
	if testing.Short() {
		all = slices.DeleteFunc(all, func(s scenario) bool {
			return (s.size > 2 && s.left != faults{}) ||
				(s.left.rebirth > 0 && s.left.delete > 0)
		})
	}
	if os.Getenv("LOAM_ROLLOUT") != "" {
		all = append(all, thorough()...)
	}

	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			w, problem := s.run(50_000_000)
			t.Logf("L0: %d states, %d transitions without faults", len(w.parent), len(w.after))
			if problem != "" {
				t.Error(problem)
			}
		})
	}
}
