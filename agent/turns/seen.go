package turns

import (
	"maps"
	"slices"
)

// Seen is what was read of the API server.
type Seen struct {
	// Ledger is nil if it does not exist.
	Ledger *Ledger

	// Fleet was read after Ledger; valid if Listed. Brief says that nobody has looked
	// for canaries and pinned Nodes.
	Fleet  Fleet
	Listed bool
	Brief  bool
}

// Later returns s with a ledger that was read after it: of a node whose write another
// one preceded. It need not list the Nodes again, which in a large pool takes so long
// that others write meanwhile each time. A node whose turn is not in both ledgers counts
// as away: it is not known how its change went, or whether it was there when the Nodes
// were listed. Where more than that may have changed, the list is left out.
func (s Seen) Later(l *Ledger) Seen {
	later := Seen{Ledger: l}
	if !s.Listed || l == nil {
		return later
	}
	for _, read := range []*Ledger{s.Ledger, l} {
		if read.State == Restoring || len(read.Restored) > 0 {
			return later
		}
	}
	if !maps.Equal(failuresOf(*s.Ledger), failuresOf(*l)) {
		return later // Of a turn that was taken since, and is in neither ledger.
	}

	fleet := slices.Clone(s.Fleet)
	index := map[string]int{}
	for i, n := range fleet {
		index[n.Name] = i
	}

	for machine, h := range s.Ledger.Holders {
		at, isThere := index[h.Node]
		if !isThere || l.has(machine, h.ID) {
			continue
		}
		if fleet[at].Canary {
			return later // Whether others wait for it depends on how its change went.
		}
		fleet[at].Away = true
	}
	for machine, h := range l.Holders {
		_, isThere := index[h.Node]
		if !isThere && !s.Ledger.has(machine, h.ID) {
			mayBe := Node{Name: h.Node, ControlPlane: true}
			fleet = append(fleet, mayBe.unselected(h))
		}
	}

	later.Fleet = fleet
	later.Listed = true
	later.Brief = s.Brief
	return later
}

// failuresOf returns how many nodes have failed by their target.
func failuresOf(l Ledger) map[string]int {
	failures := map[string]int{}
	for target, r := range l.Systems {
		failures[target] = r.Failed
	}
	failures[l.Target] = l.Failed
	maps.DeleteFunc(failures, func(_ string, failed int) bool { return failed == 0 })
	return failures
}
