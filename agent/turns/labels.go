package turns

import (
	"maps"
	"slices"
)

// labelShare is the part of a pool, one in so many, that takes turns before a node looks
// again for labels of canaries and pinned Nodes.
const labelShare = 20

// turnsTaken returns how many turns were taken for the target of me.
func turnsTaken(l Ledger, me Me) int {
	r := l.toward(me)
	return r.Done + r.Failed + r.Postponed + begunBy(slices.Collect(maps.Values(l.Holders)), me)
}

// isUnlabelled reports whether me may take the Nodes of the pool for ones without labels
// of canaries and pinned Nodes: a node has looked, and not many have taken turns since.
// In a large pool, each of these labels is another list.
func isUnlabelled(l Ledger, me Me) bool {
	left := l.toward(me).Unlabelled - turnsTaken(l, me)
	return 0 < left && left <= l.Size/labelShare
}

// looked returns the ledger in which me has just taken a turn, after it has seen the
// labels of the fleet.
func looked(l Ledger, me Me, fleet Fleet) Ledger {
	l = l.clone()
	r := l.toward(me)
	r.Unlabelled = turnsTaken(l, me) + fleet.Size()/labelShare
	if slices.ContainsFunc(fleet, func(n Node) bool { return n.Canary || n.Pinned }) {
		r.Unlabelled = 0
	}
	l.set(me, r)
	return l
}
