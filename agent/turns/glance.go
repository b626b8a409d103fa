package turns

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// Glance is what a list of the Nodes has shown to one of them, and what counts for a
// while. With it, that node sees by the ledger alone that it need not list them again.
type Glance struct {
	// canary is the node that came first, "" for none, and target what that was for.
	canary, target string

	// outside are the nodes that were away without a turn, inZone and inRack those that
	// there are in the zone and in the rack of the one that has listed them.
	outside        away
	inZone, inRack int

	// gone are the names of Nodes that had a turn and were not there.
	gone map[string]bool
}

// Glance returns what me has to know of the fleet until it lists that again.
func (f Fleet) Glance(p Policy, l Ledger, me Me, now time.Time) *Glance {
	g := f.glance(me)
	turns := f.turns(l)
	g.canary = f.first(p, turns, me, now)
	g.target = me.Target
	g.gone = map[string]bool{}
	for _, name := range f.Missing(l) {
		g.gone[name] = true
	}

	holds := map[string]bool{me.Node: true}
	for _, h := range turns {
		holds[h.Node] = true
	}
	for _, n := range f {
		if n.Away && !holds[n.Name] {
			g.outside.add(n, me)
		}
	}
	return &g
}

// glance returns how many nodes may change in the zone and the rack of me.
func (f Fleet) glance(me Me) Glance {
	var g Glance
	for _, n := range f {
		if n.Pinned {
			continue
		}
		if n.Zone == me.Zone {
			g.inZone++
		}
		if n.Rack == me.Rack {
			g.inRack++
		}
	}
	return g
}

// full returns why no more nodes may be away than are used, in a pool of that size; ""
// if me may be, too.
func (g Glance) full(p Policy, me Me, size int, used away) string {
	for _, limit := range []struct {
		what       string
		used, most int
	}{
		{"nodes", used.total, p.MayBeAway(size)},
		{"nodes of zone " + me.Zone, used.zone, limitOf(p.PerZone, g.inZone)},
		{"nodes of rack " + me.Rack, used.rack, limitOf(p.PerRack, g.inRack)},
		{"control planes", used.controlPlanes, me.controlPlanes()},
	} {
		if limit.used >= limit.most {
			return fmt.Sprintf("%d of %d %s are away", limit.used, limit.most, limit.what)
		}
	}
	return ""
}

// limitOf returns how many of size nodes may be away. The zero Amount does not
// limit.
func limitOf(a Amount, size int) int {
	if a == (Amount{}) {
		return math.MaxInt
	}
	return a.Of(size)
}

// mayList returns Take if the Nodes may be listed. While the ledger and what is known of
// the Nodes speak against a turn, a list could only show that one of them is well, is
// gone or has other labels: each node then looks once in a while.
func mayList(p Policy, l Ledger, me Me, now time.Time) Decision {
	g := Glance{inZone: l.Size, inRack: l.Size}
	if me.Glance != nil {
		g = *me.Glance
	}
	used := g.outside
	turns := slices.DeleteFunc(slices.Collect(maps.Values(l.Holders)),
		func(h Holder) bool { return g.gone[h.Node] })
	for _, h := range turns {
		used.add(Node{Zone: h.Zone, Rack: h.Rack}, me)
	}

	free := max(1, p.MayBeAway(l.Size)-used.total)
	if !me.isRestart() {
		d := inOrder(l.toward(me), me, l.Size, begunBy(turns, me), free, now)
		if d.Verdict != Take {
			return d
		}
	}
	if me.Listed >= listPause(l.Size) {
		return Decision{Verdict: Take}
	}

	if d := inBounds(p, l.toward(me), turns, now); d.Verdict != Take {
		return d
	}
	next := now.Add(pause(me, l.Size))
	if g.isAhead(l, me) {
		return wait(next, "canary "+g.canary+" comes first")
	}
	if full := g.full(p, me, l.Size, used); full != "" {
		return wait(next, full)
	}
	if me.isRestart() {
		return Decision{Verdict: Take}
	}
	return inChunk(p, l, turns, me, l.Size, now)
}

// isAhead reports whether a canary still comes before me: it has its turn now, or has
// not had one since.
func (g Glance) isAhead(l Ledger, me Me) bool {
	if g.canary == "" || g.target != me.Target {
		return false
	}
	has := func(h Holder) bool { return h.Node == g.canary && h.Target == me.Target }
	return me.Unchanged >= me.Listed || slices.ContainsFunc(slices.Collect(maps.Values(l.Holders)), has)
}
