package fleet

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"

	"github.com/loam-os/loam/agent/turns"
	"github.com/loam-os/loam/test/apiserver"
)

// Limits are how many nodes may be away at once: in all, of a zone and of a rack.
// They are those of the policy, as numbers.
type Limits struct{ Total, Zone, Rack int }

// place is where a node is.
type place struct{ zone, rack string }

// checker checks what must hold at any time.
type checker struct {
	limits Limits
	places map[string]place

	mu sync.Mutex

	// ledger is the last one, written says that there is one.
	ledger  turns.Ledger
	written bool

	// nodes are the configurations that the Nodes say that they run, numbers how
	// many Nodes say so. hasSecret says that there is a configuration.
	nodes     map[string]string
	numbers   map[string]int
	hasSecret bool

	// marked are the Nodes with a mark, disturbed the nodes whose pods are
	// disturbed now, and touched counts how often each was.
	marked    map[string]bool
	disturbed map[string]bool
	touched   map[string]int

	// most is the most nodes that were disturbed at once.
	most int

	faults []string
}

func newChecker(limits Limits) *checker {
	return &checker{
		limits:    limits,
		places:    map[string]place{},
		nodes:     map[string]string{},
		numbers:   map[string]int{},
		marked:    map[string]bool{},
		disturbed: map[string]bool{},
		touched:   map[string]int{},
	}
}

// fault records that something does not hold. mu must be held.
func (c *checker) fault(format string, args ...any) {
	if len(c.faults) < 10 {
		c.faults = append(c.faults, fmt.Sprintf(format, args...))
	}
}

// watched checks a write.
func (c *checker) watched(w apiserver.Write) {
	c.mu.Lock()
	defer c.mu.Unlock()

	if before, ok := w.Before.(*core.Node); ok {
		c.numbers[c.nodes[before.Name]]--
		delete(c.nodes, before.Name)
		delete(c.marked, before.Name)
	}
	switch after := w.After.(type) {
	case *core.Node:
		runs := after.Annotations[doneAnnotation]
		c.nodes[after.Name] = runs
		c.numbers[runs]++
		if after.Annotations[markAnnotation] != "" {
			c.marked[after.Name] = true
		}
	case *core.Secret:
		c.hasSecret = true
	case *coordination.Lease:
		if after.Name == ledgerName {
			c.wroteLedger(after)
		}
	}
}

// configured reports whether there is a configuration.
func (c *checker) configured() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hasSecret
}

// running returns how many Nodes say that they run the configuration with that
// digest.
func (c *checker) running(digest string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.numbers[digest]
}

// wroteLedger checks a ledger against the limits and the one before. mu must be
// held.
func (c *checker) wroteLedger(l *coordination.Lease) {
	next, err := turns.ReadLedger(l.Annotations)
	if err != nil {
		c.fault("the ledger: %v", err)
		return
	}

	holders := map[string]bool{}
	for _, of := range []map[string]turns.Holder{next.Holders, next.Restored} {
		for _, h := range of {
			holders[h.Node] = true
		}
	}
	c.count("have a turn", holders)

	for machine, h := range next.Holders {
		if _, had := c.ledger.Holders[machine]; !had && haltedFor(c.ledger, h) {
			c.fault("%s takes a turn after the halt: %s", machine, c.ledger.Summary())
		}
	}
	c.ledger = next
	c.written = true
}

// haltedFor reports whether a ledger is halted for the target of a holder.
func haltedFor(l turns.Ledger, h turns.Holder) bool {
	if h.Version != "" {
		return l.Systems[h.Target].Halted != ""
	}
	return l.Target == h.Target && l.Halted != ""
}

// count checks the limits for a set of nodes. mu must be held.
func (c *checker) count(what string, set map[string]bool) {
	zones := map[string]int{}
	racks := map[string]int{}
	for name := range set {
		at := c.places[name]
		zones[at.zone]++
		racks[at.rack]++
	}

	if len(set) > c.limits.Total {
		c.fault("%d nodes %s, allowed are %d", len(set), what, c.limits.Total)
	}
	for zone, n := range zones {
		if c.limits.Zone > 0 && n > c.limits.Zone {
			c.fault("%d nodes of zone %s %s, allowed are %d", n, zone, what, c.limits.Zone)
		}
	}
	for rack, n := range racks {
		if c.limits.Rack > 0 && n > c.limits.Rack {
			c.fault("%d nodes of rack %s %s, allowed are %d", n, rack, what, c.limits.Rack)
		}
	}
}

// begin says that the pods of a node are disturbed from now on.
func (c *checker) begin(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.disturbed[name] = true
	c.touched[name]++
	c.most = max(c.most, len(c.disturbed))
	c.count("are disturbed", c.disturbed)
	if !c.marked[name] {
		c.fault("%s is disturbed without a mark", name)
	}
}

// end says that a node is well again.
func (c *checker) end(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.disturbed, name)
}

// state is what the checker has seen.
type state struct {
	// ledger is the last one, marked the Nodes with a mark.
	ledger turns.Ledger
	marked []string

	// touched is how many nodes were disturbed, most how many at once.
	touched, most int

	faults []string
}

func (c *checker) state() state {
	c.mu.Lock()
	defer c.mu.Unlock()
	return state{
		ledger:  c.ledger,
		marked:  slices.Sorted(maps.Keys(c.marked)),
		touched: len(c.touched),
		most:    c.most,
		faults:  slices.Clone(c.faults),
	}
}

// forget forgets which nodes were disturbed so far.
func (c *checker) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.touched = map[string]int{}
	c.most = 0
}
