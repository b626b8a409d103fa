package turns

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// wants is node-10, which wants a turn and has read the ledger and the fleet.
func wants() View {
	l := running()
	return View{
		Policy: Policy{
			MaxUnavailable: Amount{Number: 3},
			HardMax:        Amount{Number: 10},
			Chunks:         []Amount{{Percent: 100}},
			Overdue:        defaultOverdue(),
		},
		Me: Me{
			Machine:   "node-10",
			Node:      "node-10",
			UID:       "u",
			Target:    "new",
			Revision:  7,
			Class:     Kubelet,
			Unchanged: time.Hour,
		},
		Need: NeedTurn,
		Seen: &Seen{Ledger: &l, Fleet: fleet(), Listed: true},
		ID:   "10",
		Now:  noon,
	}
}

// takes is wants once its turn is on its disk.
func takes() View {
	v := wants()
	v.Turn = Next(v).Turn
	return v
}

// taken is takes once its turn is in the ledger and its Node is marked.
func taken() View {
	v := takes()
	l := Next(v).Ledger
	v.Seen.Ledger = &l
	v.Mark = v.Turn.Holder.String()
	return v
}

// ended is taken once its change is over, which is on the disk.
func ended(how Need) View {
	v := taken()
	v.Turn.Phase = Holding
	v.Need = how
	v.Why = "it fails"
	v.Turn = Next(v).Turn
	v.Need = NeedNothing
	return v
}

// full is [wants] with as many turns taken as there may be.
func full() View {
	v := wants()
	v.Seen.Listed = false
	for _, machine := range []string{"node-3", "node-4"} {
		v.Seen.Ledger.Holders[machine] = holder(machine, machine)
	}
	return v
}

// overdueTurn frees a turn, and has another one be overdue.
func overdueTurn(v *View) {
	delete(v.Seen.Ledger.Holders, "node-3")
	h := v.Seen.Ledger.Holders["node-4"]
	h.Since = noon.Add(-v.Policy.Overdue[h.Class] - time.Second)
	v.Seen.Ledger.Holders["node-4"] = h
}

// canaryFirst is [wants] a second after node-3, a canary, came first in a list.
func canaryFirst() View {
	v := wants()
	v.Seen.Listed = false
	v.Me.Listed = time.Second
	v.Me.Glance = &Glance{canary: "node-3", target: "new", inZone: 5, inRack: 2}
	return v
}

// TestOthersSeldomLookWhileALedgerIsRestored checks when a node looks again at a ledger
// that another one restores.
func TestOthersSeldomLookWhileALedgerIsRestored(t *testing.T) {
	for unchanged, want := range map[time.Duration]time.Duration{
		0:            restorePause,
		time.Second:  restorePause + time.Second,
		patience:     restorePause + patience,
		2 * patience: 2 * patience,
		longestRest:  2 * patience,
	} {
		me := Me{Unchanged: unchanged}
		if got := me.restorePause(); got != want {
			t.Errorf("after %s, it looks again after %s, want %s", unchanged, got, want)
		}
	}
}

func TestNext(t *testing.T) {
	for _, tt := range []struct {
		name string
		view View
		edit func(v *View)
		want Kind
	}{
		{"nothing to do", wants(), func(v *View) { v.Need = NeedNothing }, Nothing},
		{"nothing was read", wants(), func(v *View) { v.Seen = nil }, Read},
		{"no ledger", wants(), func(v *View) { v.Seen = &Seen{} }, Create},
		{"no ledger, seen just now", wants(), func(v *View) {
			v.Seen = &Seen{}
			v.Me.Unchanged = time.Second - 1
		}, Await},
		{"a new ledger of its own", wants(), func(v *View) {
			v.Seen.Ledger.State = Restoring
			v.Seen.Listed = false
			v.Me.Created = true
			v.Me.Unchanged = 0
		}, List},
		{"a new ledger of another node", wants(), func(v *View) {
			v.Seen.Ledger.State = Restoring
			v.Seen.Listed = false
			v.Me.Unchanged = patience - 1
		}, Await},
		{"a new ledger of another node that has died", wants(), func(v *View) {
			v.Seen.Ledger.State = Restoring
			v.Seen.Listed = false
			v.Me.Unchanged = 7 * patience
		}, List},
		{"a new ledger, and the fleet", wants(), func(v *View) {
			v.Seen.Ledger.State = Restoring
		}, Write},
		{"a turn is free", wants(), func(*View) {}, Save},
		{"the fleet is not known", wants(), func(v *View) { v.Seen.Listed = false }, List},
		{"all turns are taken, and the node asks since now", full(), func(*View) {}, Await},
		{"all turns are taken, and the fleet was listed just now", full(), func(v *View) {
			v.Me.Listed = listPause(10) - 1
		}, Await},
		{"all turns are taken, and the fleet was listed a while ago", full(), func(v *View) {
			v.Me.Listed = listPause(10)
		}, List},
		{"a turn is free again", full(), func(v *View) {
			delete(v.Seen.Ledger.Holders, "node-3")
		}, List},
		{"a turn is free, and a Node was away just now", full(), func(v *View) {
			delete(v.Seen.Ledger.Holders, "node-3")
			v.Me.Glance = &Glance{outside: away{total: 1}}
		}, Await},
		{"a turn is free, and a Node was away a while ago", full(), func(v *View) {
			delete(v.Seen.Ledger.Holders, "node-3")
			v.Me.Glance = &Glance{outside: away{total: 1}}
			v.Me.Listed = listPause(10)
		}, List},
		{"its zone was full just now", full(), func(v *View) {
			delete(v.Seen.Ledger.Holders, "node-3")
			v.Me.Zone = "a"
			v.Policy.PerZone = Amount{Percent: 40}
			v.Me.Glance = &Glance{inZone: 5}
		}, Await},
		{"another zone was full just now", full(), func(v *View) {
			delete(v.Seen.Ledger.Holders, "node-3")
			v.Me.Zone = "b"
			v.Policy.PerZone = Amount{Percent: 40}
			v.Me.Glance = &Glance{inZone: 5}
		}, List},
		{"its zone may be full, and the size of that is not known", full(), func(v *View) {
			delete(v.Seen.Ledger.Holders, "node-3")
			v.Me.Zone = "a"
			v.Policy.PerZone = Amount{Percent: 40}
		}, List},
		{"a node is overdue", full(), overdueTurn, Await},
		{"a node is overdue, and the fleet was listed a while ago", full(), func(v *View) {
			overdueTurn(v)
			v.Me.Listed = listPause(10)
		}, List},
		{"a node is overdue, and its Node was gone just now", full(), func(v *View) {
			overdueTurn(v)
			v.Me.Glance = &Glance{gone: map[string]bool{"node-4": true}}
		}, List},
		{"all turns are taken, and the Node of one was gone just now", full(), func(v *View) {
			v.Me.Glance = &Glance{gone: map[string]bool{"node-3": true}}
		}, List},
		{"a canary came first just now", canaryFirst(), func(*View) {}, Await},
		{"a canary came first a while ago", canaryFirst(), func(v *View) {
			v.Me.Listed = listPause(10)
		}, List},
		{"a canary came first, and another node has a turn since", canaryFirst(),
			func(v *View) { v.Me.Unchanged = time.Second - 1 }, List},
		{"a canary came first, and has its turn now", canaryFirst(), func(v *View) {
			v.Me.Unchanged = time.Second - 1
			v.Seen.Ledger.Holders["node-3"] = holder("node-3", "3")
		}, Await},
		{"a canary came first for something else", canaryFirst(), func(v *View) {
			v.Me.Glance.target = "old"
		}, List},
		{"the first nodes are not done", full(), func(v *View) {
			v.Policy.MaxUnavailable = Amount{Number: 5}
			v.Policy.Chunks = []Amount{{Number: 5}, {Percent: 100}}
		}, Await},
		{"the rollout is paused, and the fleet not known", wants(), func(v *View) {
			*v.Seen.Ledger = v.Seen.Ledger.Pause("lunch")
			v.Seen.Listed = false
		}, Await},
		{"a clone has a turn", wants(), func(v *View) {
			v.Seen.Ledger.Holders["node-10"] = holder("node-10", "x")
		}, Await},
		{"a clone has a mark", wants(), func(v *View) {
			v.Seen.Fleet[9].Mark = holder("node-10", "x").String()
		}, Await},
		{"a machine that was installed again finds the turn that it had", wants(), func(v *View) {
			h := holder("node-10", "x")
			h.UID = "the UID before"
			v.Seen.Ledger.Holders["node-10"] = h
		}, Write},
		{"a clone has a turn from before the Node was made again", wants(), func(v *View) {
			h := holder("node-10", "x")
			h.UID = "the UID before"
			v.Seen.Ledger.Holders["node-10"] = h
			v.Mark = h.String()
		}, Await},
		{"the policy selects other Nodes", wants(), func(v *View) {
			v.Seen.Fleet = v.Seen.Fleet[:9]
		}, Await},
		{"the Node is gone", wants(), func(v *View) { v.Me.Node = "" }, Nothing},

		{"its turn is on the disk", takes(), func(*View) {}, Write},
		{"its turn is in the ledger", taken(), func(v *View) { v.Mark = "" }, Mark},
		{"its Node is marked", taken(), func(*View) {}, Save},
		{"its Node is marked, and the ledger not read since", taken(), func(v *View) {
			v.Seen = nil
		}, Read},
		{"another ledger", taken(), func(v *View) {
			*v.Seen.Ledger = running()
		}, Unmark},
		{"the rollout is halted meanwhile", taken(), func(v *View) {
			v.Seen.Ledger.Halted = "node-3: no"
			v.Mark = ""
		}, Save},
		{"the target has changed meanwhile", taken(), func(v *View) {
			v.Me.Target = "newer"
		}, Save},
		{"the change is not needed any more", taken(), func(v *View) {
			v.Need = NeedNothing
		}, Save},
		{"that it is not needed is on the disk", ended(NeedReturn), func(*View) {}, Unmark},
		{"it is not needed, and its mark is removed", ended(NeedReturn), func(v *View) {
			v.Mark = ""
		}, Write},

		{"it changes", taken(), func(v *View) { v.Turn.Phase = Holding }, Proceed},
		{"it changes, and its Node has lost its mark", taken(), func(v *View) {
			v.Turn.Phase = Holding
			v.Mark = ""
		}, Mark},
		{"it changes, and its Node is gone", taken(), func(v *View) {
			v.Turn.Phase = Holding
			v.Mark = ""
			v.Me.Node = ""
		}, Proceed},
		{"it is proven", taken(), func(v *View) {
			v.Turn.Phase = Holding
			v.Need = NeedGive
		}, Save},
		{"it was given up", taken(), func(v *View) {
			v.Turn.Phase = Holding
			v.Need = NeedReturn
		}, Save},
		{"that it is proven is on the disk", ended(NeedGive), func(*View) {}, Write},
		{"its turn is given", ended(NeedGive), func(v *View) {
			*v.Seen.Ledger = running()
		}, Unmark},
		{"its mark is removed", ended(NeedGive), func(v *View) {
			v.Mark = ""
			*v.Seen.Ledger = running()
		}, Save},
		{"its mark is removed, and the ledger not read since", ended(NeedGive), func(v *View) {
			v.Mark = ""
			v.Seen = nil
		}, Read},
		{"its mark is removed, and another node makes the ledger again", ended(NeedGive),
			func(v *View) {
				v.Mark = ""
				v.Me.Unchanged = 0
				v.Seen = &Seen{Ledger: new(New())}
			}, Await},
		{"its turn was restored before its mark was removed", ended(NeedGive), func(v *View) {
			v.Mark = ""
			*v.Seen.Ledger = running()
			v.Seen.Ledger.Restored["node-10"] = v.Turn.Holder
		}, Write},
		{"that it has failed is on the disk", ended(NeedFail), func(*View) {}, Note},
		{"it has failed, and its Node is gone", ended(NeedFail), func(v *View) {
			v.Me.Node = ""
		}, Write},
		{"it has failed, its Node is gone, and its turn is given", ended(NeedFail), func(v *View) {
			v.Me.Node = ""
			v.Mark = ""
			*v.Seen.Ledger = running()
		}, Await},
		{"it is proven, its Node is gone, and its turn is given", ended(NeedGive), func(v *View) {
			v.Me.Node = ""
			v.Mark = ""
			*v.Seen.Ledger = running()
		}, Save},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := tt.view
			tt.edit(&v)
			if got := Next(v).Kind; got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func TestATurnThatIsDroppedIsNotCounted(t *testing.T) {
	v := taken()
	v.Seen.Ledger.Halted = "node-3: no"
	v.Mark = ""
	v.Turn = Next(v).Turn
	step := Next(v)
	if _, ok := step.Ledger.Holders["node-10"]; ok || !step.Save || step.Turn.Phase != Over ||
		step.Ledger.Done != v.Seen.Ledger.Done || step.Ledger.Halted == "" {
		t.Errorf("%+v", step)
	}
}

// TestARestoredTurnOfAnotherNodeStays: a node gave its turn while another one made the
// ledger again. The admission policies let only that node remove it, which it does before
// its next turn.
func TestARestoredTurnOfAnotherNodeStays(t *testing.T) {
	v := takes()
	v.Seen.Ledger.Restored = map[string]Holder{
		"given":  holder("node-5", "1"),
		"again":  holder("node-6", "2"),
		"marked": holder("node-7", "3"),
		"gone":   holder("node-77", "4"),
	}
	v.Policy.MaxUnavailable = Amount{Percent: 100}
	v.Seen.Fleet[5].Mark = holder("node-6", "5").String()
	v.Seen.Fleet[6].Mark = holder("node-7", "3").String()

	l := Next(v).Ledger
	got := slices.Sorted(maps.Keys(l.Restored))
	if diff := cmp.Diff([]string{"again", "given", "gone", "marked"}, got); diff != "" {
		t.Errorf("restored turns (-want +got):\n%s", diff)
	}
	if _, ok := l.Holders["node-10"]; !ok {
		t.Errorf("it takes no turn: %+v", l)
	}
}

func TestAFailureIsRemembered(t *testing.T) {
	v := ended(NeedFail)
	note := Next(v)
	if note.Kind != Note || note.Failure.Target != "new" || note.Failure.Why != "it fails" {
		t.Errorf("%+v", note)
	}

	v.Failure = note.Failure.String()
	l := Next(v).Ledger
	if l.Failed != 1 || l.Halted != "node-10: it fails" {
		t.Errorf("%+v", l)
	}

	v.Seen.Ledger = &l
	v.Mark = ""
	if got := Next(v).Turn; got.Failed != "new" || got.Phase != Over || got.Outcome != (Outcome{}) {
		t.Errorf("%+v", got)
	}
}

// TestADrainedNodeLooksAgain has a node look at the ledger once its pods are gone. What
// stands by then does not begin.
func TestADrainedNodeLooksAgain(t *testing.T) {
	for _, tt := range []struct {
		name   string
		edit   func(v *View, l *Ledger)
		begins bool
	}{
		{"nothing has changed", func(*View, *Ledger) {}, true},
		{"paused", func(_ *View, l *Ledger) { *l = l.Pause("lunch") }, false},
		{"halted", func(_ *View, l *Ledger) { l.Halted = "node-1: no" }, false},
		{"forgotten", func(v *View, l *Ledger) { *l = l.Forget(v.Me.Machine) }, false},
		{"restored from its mark", func(v *View, l *Ledger) {
			*l = New().Restore(v.Policy, Me{Pool: "pool"}, Fleet{{Name: v.Me.Node, Mark: v.Mark}})
		}, true},
		{"pinned", func(v *View, _ *Ledger) { v.Me.Pinned = "for a reason" }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := taken()
			v.Turn.Phase = Holding
			v.Checks = true
			l := *v.Seen.Ledger
			tt.edit(&v, &l)
			v.Seen = nil
			if got := Next(v).Kind; got != Read {
				t.Fatalf("%s, want %s", got, Read)
			}

			v.Seen = &Seen{Ledger: &l}
			step := Next(v)
			returns := step.Kind == Save && step.Turn.Outcome.How == NeedReturn
			if begins := step.Kind == Proceed; begins != tt.begins || returns == tt.begins {
				t.Errorf("%+v", step)
			}
		})
	}
}

// TestValuesOfTheNodeAreOfItsTurn has a node with values that no other one has: what
// fails is its own configuration, and the target is that of all.
func TestValuesOfTheNodeAreOfItsTurn(t *testing.T) {
	v := wants()
	v.Me.Own = "new with A"
	v.Turn = Next(v).Turn
	if v.Turn.Changes() != "new with A" || v.Turn.Holder.Target != "new" {
		t.Errorf("it takes a turn for %s, target %s", v.Turn.Changes(), v.Turn.Holder.Target)
	}

	other := v
	other.Me.Own = "new with B"
	if got := Next(other).Turn; got.Phase != Returning {
		t.Errorf("with another value: %+v", got)
	}

	v.Turn.Phase = Holding
	v.Need = NeedFail
	failed := v.returning()
	if got := failed.over().Failed; got != "new with A" || failed.Outcome.Target != "new" {
		t.Errorf("%s has failed, target %s", got, failed.Outcome.Target)
	}
}

// TestATurnThatIsOverIsGoodForNoOtherChange has the answer to the write that gives
// the turn be lost, and the next configuration arrive before the node looks again.
func TestATurnThatIsOverIsGoodForNoOtherChange(t *testing.T) {
	for how, count := range map[Need]func(Ledger) int{
		NeedGive:     func(l Ledger) int { return l.Done },
		NeedFail:     func(l Ledger) int { return l.Failed },
		NeedPostpone: func(l Ledger) int { return l.Postponed },
	} {
		v := ended(how)
		v.Failure = v.Turn.Outcome.String()
		v.Need = NeedTurn
		v.Me.Target = "newer"
		v.Me.Revision++

		before := *v.Seen.Ledger
		step := Next(v)
		if step.Kind != Write || step.Ledger.Target != "new" || count(step.Ledger) != count(before)+1 {
			t.Errorf("%s: %s, ledger %+v", how, step.Kind, step.Ledger)
		}
		v.Seen.Ledger = &step.Ledger
		v.Mark = ""
		v.Turn = Next(v).Turn
		if v.Turn.Phase != Over {
			t.Errorf("%s: %+v", how, v.Turn)
		}
		if step = Next(v); step.Kind != Save || step.Turn.Phase != Taking ||
			step.Turn.Holder.Target != "newer" {
			t.Errorf("%s: %s, turn %+v", how, step.Kind, step.Turn)
		}
	}
}

// TestATurnIsNotGivenTwice has a ledger without the turn, which may have counted it.
func TestATurnIsNotGivenTwice(t *testing.T) {
	for _, how := range []Need{NeedGive, NeedPostpone} {
		v := ended(how)
		*v.Seen.Ledger = running()
		if got := Next(v); got.Kind != Unmark {
			t.Errorf("%s: %s, ledger %+v", how, got.Kind, got.Ledger)
		}
	}
}

// TestATurnThatIsReturnedIsNotTakenAgain has a node give up its change and begin it
// again while its mark is being removed: the answer of that may be lost.
func TestATurnThatIsReturnedIsNotTakenAgain(t *testing.T) {
	for _, phase := range []Phase{Taking, Holding} {
		v := taken()
		v.Turn.Phase = phase
		v.Need = NeedReturn
		v.Turn = Next(v).Turn

		v.Need = NeedTurn
		if got := Next(v).Kind; got != Unmark {
			t.Fatalf("%s: %s of a change that is given up", phase, got)
		}
		v.Mark = ""
		step := Next(v)
		if step.Kind != Write || !step.Save || step.Turn.Phase != Over ||
			step.Ledger.has(v.Me.Machine, v.Turn.Holder.ID) {
			t.Errorf("%s: %+v", phase, step)
		}
	}
}

func TestAFailureOutlivesAnUpgrade(t *testing.T) {
	v := wants()
	v.Turn.Failed = "new"
	v.Me.Target = "5678"
	v.Me.Version = "3.0.0"
	v.Turn = Next(v).Turn
	if v.Turn.Failed != "new" || v.Turn.Holder.Version != "3.0.0" {
		t.Errorf("%+v", v.Turn)
	}
	for _, how := range []Need{NeedGive, NeedFail, NeedPostpone} {
		v.Need = how
		if got := v.returning().over(); got.Failed != "new" {
			t.Errorf("%s: %+v", how, got)
		}
	}
}

func TestAFailureOutlivesARestart(t *testing.T) {
	v := wants()
	v.Turn.Failed = "new"
	v.Me.Target = ""
	v.Me.Canary = true
	v.Turn = Next(v).Turn
	if v.Turn.Failed != "new" || v.Turn.Holder.Target != "" {
		t.Errorf("%+v", v.Turn)
	}
	v.Need = NeedGive
	if got := v.returning().over(); got.Failed != "new" {
		t.Errorf("%+v", got)
	}
	if s, notes := v.tried(); notes {
		t.Errorf("%+v", s)
	}
}

// TestOneChangeDoesNotWaitForAnother has a node that waits for a turn for its
// configuration, because that is halted, upgrade its system.
func TestOneChangeDoesNotWaitForAnother(t *testing.T) {
	halted := wants()
	halted.Seen.Ledger.Halted = "node-3: no"
	upgrade := halted
	upgrade.Me.Target = "5678"
	upgrade.Me.Version = "3.0.0"

	for _, views := range [][]View{{halted, upgrade}, {upgrade, halted}} {
		v, step := First(views)
		if v.Me.Version != "3.0.0" || step.Kind != Save {
			t.Errorf("%s for %q", step.Kind, v.Me.Version)
		}
	}

	soon := upgrade
	soon.Policy.MaxUnavailable.Number = 2
	v, step := First([]View{halted, soon})
	if v.Me.Version != "3.0.0" || step.Kind != Await {
		t.Errorf("%s for %q", step.Kind, v.Me.Version)
	}
}

// TestATurnBeginsWhenItIsWritten has a node wait for long between the record on its
// disk and the ledger: others were faster. Its turn is not overdue from the start.
func TestATurnBeginsWhenItIsWritten(t *testing.T) {
	v := takes()
	v.Now = v.Now.Add(5 * time.Minute)
	l := Next(v).Ledger
	if got := l.Holders["node-10"].Since; !got.Equal(v.Now) {
		t.Errorf("in the ledger since %s, written at %s", got, v.Now)
	}

	v.Seen.Ledger = &l
	v.Mark = ""
	if got := Next(v); got.Kind != Mark || !got.Turn.Holder.Since.Equal(v.Now) {
		t.Errorf("%s since %s", got.Kind, got.Turn.Holder.Since)
	}
	v.Mark = v.Turn.Holder.String()
	v.Now = v.Now.Add(time.Minute)
	if got := Next(v); got.Turn.Phase != Holding || !got.Turn.Holder.Since.Equal(noon.Add(5*time.Minute)) {
		t.Errorf("%s since %s", got.Turn.Phase, got.Turn.Holder.Since)
	}
}
