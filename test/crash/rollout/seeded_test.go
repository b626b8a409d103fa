package rollout

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/turns"
	"github.com/loam-os/loam/test/judge"
)

// bug is a mistake that one could write, and a fleet that shows it.
type bug struct {
	in   scenario
	edit func(s *scenario)
}

// seeing decides by a wrong view.
func seeing(edit func(v *turns.View)) func(s *scenario) {
	return func(s *scenario) {
		s.next = func(v turns.View) turns.Step {
			edit(&v)
			return turns.Next(v)
		}
	}
}

// instead replaces the steps for which by returns true.
func instead(by func(v turns.View, step turns.Step) (turns.Step, bool)) func(s *scenario) {
	return func(s *scenario) {
		s.next = func(v turns.View) turns.Step {
			step := turns.Next(v)
			if other, ok := by(v, step); ok {
				return other
			}
			return step
		}
	}
}

// withLedger edits a copy of the ledger that was seen.
func withLedger(edit func(v *turns.View, l *turns.Ledger)) func(s *scenario) {
	return seeing(func(v *turns.View) {
		if v.Seen == nil || v.Seen.Ledger == nil {
			return
		}
		seen := *v.Seen
		l := *seen.Ledger
		l.Holders = maps.Clone(l.Holders)
		l.Restored = maps.Clone(l.Restored)
		edit(v, &l)
		seen.Ledger = &l
		v.Seen = &seen
	})
}

// withFleet edits a copy of the Nodes that were seen.
func withFleet(edit func(n *turns.Node)) func(s *scenario) {
	return seeing(func(v *turns.View) {
		if v.Seen == nil {
			return
		}
		seen := *v.Seen
		seen.Fleet = slices.Clone(seen.Fleet)
		for i := range seen.Fleet {
			edit(&seen.Fleet[i])
		}
		v.Seen = &seen
	})
}

const day = 24 * time.Hour

var seeded = map[string]bug{
	"a turn expires by the clock": {
		fleetOf(2, 1, faults{clock: 1}),
		withLedger(func(v *turns.View, l *turns.Ledger) {
			maps.DeleteFunc(l.Holders, func(machine string, h turns.Holder) bool {
				return machine != v.Me.Machine && v.Now.Sub(h.Since) > 10*time.Minute
			})
		}),
	},
	"a turn of that name is given, whatever its ID": {
		fleetOf(3, 1, faults{}).withClone(),
		instead(func(v turns.View, step turns.Step) (turns.Step, bool) {
			if v.Seen == nil || v.Seen.Ledger == nil || v.Turn.Phase != turns.Over {
				return step, false
			}
			h, ok := v.Seen.Ledger.Holders[v.Me.Machine]
			return turns.Step{
				Kind:   turns.Write,
				Ledger: v.Seen.Ledger.Drop(v.Me.Machine, h.ID),
			}, ok
		}),
	},
	"a failure halts by a second write": {
		fleetOf(2, 1, faults{}).withFailures(),
		instead(func(v turns.View, step turns.Step) (turns.Step, bool) {
			halts := step.Kind == turns.Write && step.Ledger.Halted != ""
			if !halts || v.Seen.Ledger.Halted != "" {
				return step, false
			}
			step.Ledger = v.Seen.Ledger.Drop(v.Me.Machine, v.Turn.Holder.ID)
			return step, true
		}),
	},
	"the ledger is not read again after the mark": {
		fleetOf(2, 1, faults{delete: 1}),
		func(s *scenario) { s.keeps = true },
	},
	"the ledger is not read again without the mark": {
		fleetOf(2, 1, faults{delete: 1}),
		instead(func(v turns.View, step turns.Step) (turns.Step, bool) {
			turn := v.Turn
			turn.Phase = turns.Over
			turn.Outcome = turns.Outcome{}
			isOver := v.Turn.Phase == turns.Returning && v.Seen == nil && v.Mark == ""
			return turns.Step{Kind: turns.Save, Turn: turn}, isOver
		}),
	},
	"the Node is not marked": {
		fleetOf(2, 1, faults{delete: 1}),
		seeing(func(v *turns.View) {
			if v.Turn.Phase != turns.Over && v.Need == turns.NeedTurn {
				v.Mark = v.Turn.Holder.String()
			}
		}),
	},
	"a ledger is created after the list": {
		fleetOf(2, 1, faults{delete: 1}),
		instead(func(v turns.View, step turns.Step) (turns.Step, bool) {
			switch {
			case step.Kind != turns.Create:
				return step, false
			case !v.Seen.Listed:
				return turns.Step{Kind: turns.List}, true
			}
			return turns.Step{
				Kind:   turns.Create,
				Ledger: turns.New().Restore(v.Policy, v.Me, v.Seen.Fleet),
			}, true
		}),
	},
	"a turn is taken while the ledger is restored": {
		fleetOf(2, 1, faults{delete: 1}),
		withLedger(func(_ *turns.View, l *turns.Ledger) { l.State = turns.Running }),
	},
	"restored turns do not count": {
		fleetOf(2, 1, faults{delete: 1}),
		withLedger(func(_ *turns.View, l *turns.Ledger) { l.Restored = nil }),
	},
	"the mark is removed before the turn is given": {
		fleetOf(2, 1, faults{delete: 1}),
		instead(func(v turns.View, step turns.Step) (turns.Step, bool) {
			changes := v.Turn.Phase == turns.Holding && v.Need == turns.NeedTurn
			switch {
			case changes && step.Kind == turns.Proceed:
				return turns.Step{Kind: turns.Unmark}, true
			case changes && step.Kind == turns.Mark:
				return turns.Step{Kind: turns.Proceed}, true
			}
			return step, false
		}),
	},
	"a write does not compare": {
		fleetOf(2, 1, faults{}),
		func(s *scenario) { s.blind = true },
	},
	"the turn is not durable before it is taken": {
		fleetOf(2, 1, faults{kill: 1}),
		func(s *scenario) { s.forgetful = true },
	},
	"a turn that may be given is used for the next change": {
		fleetOf(2, 1, faults{loss: 1, again: 1}),
		instead(func(v turns.View, step turns.Step) (turns.Step, bool) {
			isUsed := v.Turn.Phase == turns.Returning && v.Need == turns.NeedTurn
			return turns.Step{Kind: turns.Proceed}, isUsed
		}),
	},
	"a lost answer counts a turn twice": {
		fleetOf(2, 1, faults{loss: 1}),
		instead(func(v turns.View, step turns.Step) (turns.Step, bool) {
			isOver := v.Turn.Outcome.How == turns.NeedGive
			gives := step.Kind == turns.Write && isOver
			if gives && step.Ledger.State == turns.Running {
				step.Ledger.Done = v.Seen.Ledger.Done + 1
			}
			if isOver && step.Kind == turns.Unmark {
				ledger := *v.Seen.Ledger
				ledger.Done++
				return turns.Step{Kind: turns.Write, Ledger: ledger}, ledger.Done <= 3
			}
			return step, gives
		}),
	},
	"other holders are not counted": {
		fleetOf(2, 1, faults{}),
		withLedger(func(v *turns.View, l *turns.Ledger) {
			if v.Turn.Phase == turns.Taking {
				maps.DeleteFunc(l.Holders, func(m string, _ turns.Holder) bool {
					return m != v.Me.Machine
				})
			}
		}),
	},
	"a turn outlives the Node that it was taken for": {
		fleetOf(2, 1, faults{rebirth: 1}),
		instead(func(v turns.View, step turns.Step) (turns.Step, bool) {
			if v.Turn.Phase != turns.Taking || v.Me.UID == v.Turn.Holder.UID {
				return step, false
			}
			v.Turn.Holder.UID = v.Me.UID
			return turns.Next(v), true
		}),
	},
	"a turn is given back before that is on the disk": {
		fleetOf(2, 1, faults{postpone: 1, kill: 1}),
		instead(func(v turns.View, step turns.Step) (turns.Step, bool) {
			if v.Need != turns.NeedPostpone || v.Turn.Phase != turns.Holding {
				return step, false
			}
			saved := step
			v.Turn = step.Turn
			if step = turns.Next(v); step.Kind == turns.Save {
				return saved, true
			}
			return step, true
		}),
	},
	"a turn is returned before that is on the disk": {
		fleetOf(2, 1, faults{giveUp: 1}).withUpgrades(),
		instead(func(v turns.View, step turns.Step) (turns.Step, bool) {
			switch {
			case v.Need != turns.NeedReturn:
				return step, false
			case v.Seen == nil || v.Seen.Ledger == nil:
				return turns.Step{Kind: turns.Read}, true
			}
			return turns.Step{
				Kind:   turns.Write,
				Ledger: v.Seen.Ledger.Drop(v.Me.Machine, v.Turn.Holder.ID),
			}, true
		}),
	},
	"a turn that was given up is used again": {
		fleetOf(2, 1, faults{giveUp: 1, loss: 1, delete: 1}).withUpgrades(),
		instead(func(v turns.View, step turns.Step) (turns.Step, bool) {
			if step.Kind != turns.Save || step.Turn.Outcome.How != turns.NeedReturn {
				return step, false
			}
			v.Turn = step.Turn
			return turns.Next(v), true
		}),
	},
	"a turn that may be taken counts as held": {
		fleetOf(2, 1, faults{kill: 1}),
		seeing(func(v *turns.View) {
			if v.Turn.Phase == turns.Taking && v.Seen == nil {
				v.Turn.Phase = turns.Holding
			}
		}),
	},
	"chunks are ignored": {
		fleetOf(3, 3, faults{}).withFailures(),
		seeing(func(v *turns.View) { v.Policy.Chunks = []turns.Amount{{Percent: 100}} }),
	},
	"zones are ignored": {
		fleetOf(3, 2, faults{}).withZones(),
		seeing(func(v *turns.View) { v.Me.Zone = v.Me.Machine }),
	},
	"racks are ignored": {
		fleetOf(3, 2, faults{}).withRacks(),
		seeing(func(v *turns.View) { v.Me.Rack = v.Me.Machine }),
	},
	"a turn that lasts for too long halts nothing": {
		fleetOf(2, 2, faults{hour: 1}),
		func(s *scenario) {
			s.policy.Chunks = []turns.Amount{{Percent: 100}}
			seeing(func(v *turns.View) { v.Policy.Overdue = map[turns.Class]time.Duration{turns.Kubelet: day} })(s)
		},
	},
	"a turn is taken outside of the window": {
		fleetOf(2, 1, faults{shut: 1}).withWindow(),
		seeing(func(v *turns.View) { v.Policy.Windows = nil }),
	},
	"a pause is seen once the turn is free": {
		fleetOf(2, 1, faults{pause: 1}),
		withLedger(func(v *turns.View, l *turns.Ledger) {
			if l.State == turns.Paused && v.Turn.Phase == turns.Taking {
				l.State = turns.Running
			}
		}),
	},
	"a hurry knows no limit": {
		fleetOf(3, 1, faults{hurry: 1}).withHardMax(2),
		seeing(func(v *turns.View) {
			if v.Seen != nil && v.Seen.Ledger != nil && v.Seen.Ledger.Hurry != nil {
				v.Policy.HardMax = turns.Amount{Percent: 100}
			}
		}),
	},
	"a hurry lasts for ever": {
		fleetOf(2, 1, faults{hurry: 1, hour: 1, shut: 1}).withWindow(),
		withLedger(func(v *turns.View, l *turns.Ledger) {
			if l.Hurry != nil {
				h := *l.Hurry
				h.Until = v.Now.Add(day)
				l.Hurry = &h
			}
		}),
	},
	"a hurry goes on after a failure": {
		fleetOf(2, 1, faults{hurry: 1}).withFailures(),
		withLedger(func(_ *turns.View, l *turns.Ledger) {
			if l.Hurry != nil {
				l.Halted = ""
			}
		}),
	},
	"a list that is kept lacks the Nodes that have joined": {
		fleetOf(2, 1, faults{rebirth: 1}),
		func(s *scenario) {
			s.later = func(seen turns.Seen, l *turns.Ledger) turns.Seen {
				later := seen.Later(l)
				if later.Listed {
					later.Fleet = seen.Fleet
				}
				return later
			}
		},
	},
	"a list is kept although turns were restored": {
		fleetOf(3, 1, faults{delete: 1}),
		func(s *scenario) {
			s.later = func(seen turns.Seen, l *turns.Ledger) turns.Seen {
				later := seen.Later(l)
				if l != nil && l.State != turns.Restoring {
					later.Fleet = seen.Fleet
					later.Listed = true
				}
				return later
			}
		},
	},
	"control planes are ignored": {
		fleetOf(3, 3, faults{}).withControlPlanes(),
		seeing(func(v *turns.View) { v.Me.ControlPlane = false }),
	},
	"a failure is not on its Node": {
		fleetOf(2, 1, faults{delete: 1}).withFailures(),
		seeing(func(v *turns.View) {
			if v.Turn.Outcome.How == turns.NeedFail {
				v.Failure = v.Turn.Outcome.String()
			}
		}),
	},
	"a failure is on its Node after the mark is removed": {
		fleetOf(2, 1, faults{delete: 1}).withFailures(),
		instead(func(v turns.View, step turns.Step) (turns.Step, bool) {
			if step.Kind != turns.Note || v.Mark == "" {
				return step, false
			}
			v.Failure = step.Failure.String()
			return turns.Next(v), true
		}),
	},
	"a failure is forgotten if there is no Node": {
		fleetOf(2, 1, faults{rebirth: 1}).withFailures(),
		instead(func(v turns.View, step turns.Step) (turns.Step, bool) {
			isForgotten := step.Kind == turns.Await && v.Turn.Phase == turns.Returning
			over := v.Turn
			over.Phase = turns.Over
			return turns.Step{Kind: turns.Save, Turn: over}, isForgotten
		}),
	},
	"a failure is counted again after it was restored": {
		fleetOf(2, 1, faults{delete: 1}).withFailures(),
		withLedger(func(_ *turns.View, l *turns.Ledger) {
			for machine, h := range l.Restored {
				h.Counted = false
				l.Restored[machine] = h
			}
		}),
	},
	"systems have a budget of their own": {
		fleetOf(2, 1, faults{}).withUpgrades(),
		withLedger(func(v *turns.View, l *turns.Ledger) {
			maps.DeleteFunc(l.Holders, func(_ string, h turns.Holder) bool {
				return h.Version != v.Me.Version
			})
		}),
	},
	"a turn ends with a restart": {
		fleetOf(2, 1, faults{}).withUpgrades(),
		func(s *scenario) { s.amnesic = true },
	},
	"a system that fell back does not halt": {
		fleetOf(3, 1, faults{}).withFailures().withUpgrades(),
		seeing(func(v *turns.View) {
			if v.Me.Version != "" {
				v.Policy.MaxFailures = 3
			}
		}),
	},
	"a drained node does not look at the ledger again": {
		fleetOf(2, 2, faults{pause: 1}).withDrains(),
		seeing(func(v *turns.View) { v.Checks = false }),
	},
	"a drained node changes although the pool is paused": {
		fleetOf(2, 2, faults{pause: 1}).withDrains(),
		instead(func(v turns.View, step turns.Step) (turns.Step, bool) {
			ignores := v.Checks && v.Turn.Phase == turns.Holding && step.Kind == turns.Save
			return turns.Step{Kind: turns.Proceed}, ignores
		}),
	},
	"canaries only ask earlier": {
		fleetOf(2, 2, faults{}).withCanaries(1),
		withFleet(func(n *turns.Node) { n.Canary = false }),
	},
	"a canary counts as tried while it has its turn": {
		fleetOf(2, 2, faults{}).withCanaries(1),
		func(s *scenario) {
			s.policy.Chunks = []turns.Amount{{Percent: 100}}
			withFleet(func(n *turns.Node) { n.Canary = n.Canary && n.Mark == "" })(s)
		},
	},
	"a canary that is off is waited for": {
		fleetOf(2, 2, faults{off: 1}).withCanaries(1),
		withFleet(func(n *turns.Node) { n.Away = false }),
	},
	"a canary does not say that it was postponed": {
		fleetOf(2, 2, faults{postpone: 1}).withCanaries(1),
		instead(func(v turns.View, step turns.Step) (turns.Step, bool) {
			if step.Kind != turns.NoteTried {
				return step, false
			}
			v.Tried = step.Tried
			return turns.Next(v), true
		}),
	},
	"a turn is kept after a failure": {
		fleetOf(2, 1, faults{}),
		instead(func(v turns.View, step turns.Step) (turns.Step, bool) {
			return turns.Step{Kind: turns.Nothing}, v.Need == turns.NeedGive
		}),
	},
}

// TestSeededBugsAreFound checks that the walk finds each of these mistakes.
func TestSeededBugsAreFound(t *testing.T) {
	judge.Long(t, "nothing: it tests the judges of TestEveryInterleaving, not the product")
	for name, b := range seeded {
		t.Run(name, func(t *testing.T) {
			s := b.in
			b.edit(&s)
			w, problem := s.run(2_000_000)
			if problem == "" {
				t.Errorf("not found in %d states", len(w.parent))
			} else {
				t.Logf("found after %d states: %s", len(w.parent), problem)
			}
		})
	}
}
