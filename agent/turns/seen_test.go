package turns

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAListServesALaterLedger has a list of ten Nodes, of which node-1 has a turn,
// and what others wrote since.
func TestAListServesALaterLedger(t *testing.T) {
	without := func() *Ledger {
		l := running()
		l.Restored = map[string]Holder{}
		return &l
	}
	control := func() Node { return Node{Name: "node-11", ControlPlane: true}.unselected(holder("node-11", "11")) }

	for _, tt := range []struct {
		name string
		edit func(s *Seen, l *Ledger)

		// want edits the list; nil if there is none.
		want func(f Fleet) Fleet
	}{
		{
			"another node has taken a turn",
			func(_ *Seen, l *Ledger) { l.Holders["node-3"] = holder("node-3", "3") },
			func(f Fleet) Fleet { return f },
		},
		{
			"a turn was given",
			func(_ *Seen, l *Ledger) { delete(l.Holders, "node-1") },
			func(f Fleet) Fleet { f[0].Away = true; return f },
		},
		{
			"a turn was given, and another taken",
			func(_ *Seen, l *Ledger) { l.Holders["node-1"] = holder("node-1", "again") },
			func(f Fleet) Fleet { f[0].Away = true; return f },
		},
		{
			"a node that took a turn since has failed",
			func(_ *Seen, l *Ledger) { l.Failed++ },
			nil,
		},
		{
			"a node that took a turn for a system since has failed",
			func(_ *Seen, l *Ledger) { l.Systems["1234"] = Rollout{Version: "2.0.0", Failed: 2} },
			nil,
		},
		{
			"a turn for another system was taken",
			func(_ *Seen, l *Ledger) { l.Systems["5678"] = Rollout{Version: "2.0.0"} },
			func(f Fleet) Fleet { return f },
		},
		{
			"a canary has given its turn",
			func(s *Seen, l *Ledger) {
				s.Fleet[0].Canary = true
				delete(l.Holders, "node-1")
			},
			nil,
		},
		{
			"a Node that has joined has taken a turn",
			func(_ *Seen, l *Ledger) { l.Holders["node-11"] = holder("node-11", "11") },
			func(f Fleet) Fleet { return append(f, control()) },
		},
		{
			"a Node that has joined has given a turn",
			func(s *Seen, l *Ledger) { s.Ledger.Holders["node-11"] = holder("node-11", "11") },
			func(f Fleet) Fleet { return f },
		},
		{
			"a Node with a turn is gone",
			func(s *Seen, _ *Ledger) { s.Fleet = s.Fleet[1:] },
			func(f Fleet) Fleet { return f[1:] },
		},
		{
			"the Nodes were not listed",
			func(s *Seen, _ *Ledger) { s.Listed = false },
			nil,
		},
		{
			"the ledger is being restored",
			func(_ *Seen, l *Ledger) { l.State = Restoring },
			nil,
		},
		{
			"the ledger was being restored",
			func(s *Seen, _ *Ledger) { s.Ledger.State = Restoring },
			nil,
		},
		{
			"a turn was restored",
			func(_ *Seen, l *Ledger) { l.Restored["node-4"] = holder("node-4", "4") },
			nil,
		},
		{
			"a restored turn was given",
			func(s *Seen, _ *Ledger) { s.Ledger.Restored["node-4"] = holder("node-4", "4") },
			nil,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := without()
			seen := Seen{Ledger: without(), Fleet: fleet(), Listed: true, Brief: true}
			tt.edit(&seen, l)

			want := Seen{Ledger: l}
			if tt.want != nil {
				want = Seen{Ledger: l, Fleet: tt.want(fleet()), Listed: true, Brief: true}
			}
			listed := slices.Clone(seen.Fleet)
			if diff := cmp.Diff(want, seen.Later(l)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(listed, seen.Fleet); diff != "" {
				t.Error("what was seen has changed", diff)
			}
		})
	}

	t.Run("the ledger is gone", func(t *testing.T) {
		seen := Seen{Ledger: without(), Fleet: fleet(), Listed: true}
		if diff := cmp.Diff(Seen{}, seen.Later(nil)); diff != "" {
			t.Error(diff)
		}
	})
}

// TestTheTurnOfANodeThatJoinsCounts checks that a node that has listed the Nodes before
// does not take the last turn as well.
func TestTheTurnOfANodeThatJoinsCounts(t *testing.T) {
	v := takes()
	v.Policy.MaxUnavailable.Number = 2
	v.Seen.Ledger.Restored = map[string]Holder{}
	if step := Next(v); step.Kind != Write {
		t.Fatalf("%s, want to take the turn", step.Kind)
	}

	l := v.Seen.Ledger.clone()
	l.Holders["node-11"] = holder("node-11", "11")
	later := v.Seen.Later(&l)
	v.Seen = &later
	step := Next(v)
	if want := "2 of 2 nodes are away"; step.Kind != Await || step.Decision.Why != want {
		t.Errorf("%s: %s, want to wait: %s", step.Kind, step.Decision.Why, want)
	}
	if size := later.Fleet.Size(); size != len(fleet()) {
		t.Errorf("a pool of %d nodes, want %d", size, len(fleet()))
	}
}
