package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/loam-os/loam/agent/turns"
	"github.com/loam-os/loam/hint"
)

// read reads the ledger. One that cannot be understood is looked at again later.
func (c *turnController) read(ctx context.Context, w *world) error {
	c.readAt = c.env.Uptime()
	lease, err := c.api.readLedger(ctx, ledgerName(*w))
	if err != nil {
		return err
	}
	kept := c.kept
	c.kept = keptList{}
	if lease == nil || !turns.IsLedger(lease.Annotations) {
		if !c.absent {
			c.changed = w.uptime
		}
		c.absent = true
		c.lease = lease
		c.seen = &turns.Seen{}
		return nil
	}
	c.absent = false

	ledger, err := turns.ReadLedger(lease.Annotations)
	if err != nil {
		err = fmt.Errorf("read Lease %s: %w", lease.Name, err)
		c.await(w, turns.Decision{Why: hint.Line(err), Until: w.now.Add(ledgerPoll)})
		return nil
	}
	if c.lease == nil || c.lease.ResourceVersion != lease.ResourceVersion {
		c.changed = w.uptime
	}
	c.lease = lease
	c.seen = c.later(*w, kept, &ledger)
	return nil
}

// listLasts returns for how long a list of the Nodes of a pool is used with later ledgers,
// as after writes that others preceded. Nodes that are not ready since, without a turn, do
// not count meanwhile. The longer an API server takes for a list, the longer that list has
// to serve: otherwise it is old before a write succeeds.
func listLasts(size int) time.Duration {
	return min(max(15*time.Second, time.Duration(size)*20*time.Millisecond), time.Minute)
}

// keptList is what was seen with a list of the Nodes, and what that was for.
type keptList struct {
	seen     turns.Seen
	policy   *turns.Policy
	selector string
}

// keep keeps what was seen before the ledger is read again.
func (c *turnController) keep(w world, seen turns.Seen) {
	if w.pending != nil {
		c.kept = keptList{seen, w.pending.policy, selectorOf(w)}
	}
}

// later returns what is seen with what was kept and a ledger that was just read.
func (c *turnController) later(w world, kept keptList, l *turns.Ledger) *turns.Seen {
	isSame := w.pending != nil && w.pending.policy == kept.policy && selectorOf(w) == kept.selector
	if !isSame || w.uptime-c.listed > listLasts(l.Size) {
		return &turns.Seen{Ledger: l}
	}
	later := kept.seen.Later(l)
	return &later
}

// selectorOf returns the label selector of the Nodes of the pool, "" for all.
func selectorOf(w world) string {
	if p := w.pending; p != nil && p.policy != nil && p.policy.Nodes != "" {
		return p.policy.Nodes
	}
	if w.node != nil && w.node.Labels[poolLabel] != "" {
		return poolLabel + "=" + w.node.Labels[poolLabel]
	}
	return ""
}

// list lists the Nodes of the pool for me. If mayBeBrief, canaries and pinned Nodes need
// not be known.
func (c *turnController) list(
	ctx context.Context, w world, me turns.Me, mayBeBrief bool,
) error {
	p := turns.Policy{}
	if w.pending != nil && w.pending.policy != nil {
		p = *w.pending.policy
	}

	mark := ""
	if n := w.node; n != nil {
		mark = n.Annotations[turnAnnotation]
	}

	l := c.seen.Ledger
	byPlace := p.PerZone != (turns.Amount{}) || p.PerRack != (turns.Amount{})
	e := labelled
	switch {
	case l.State == turns.Restoring, len(l.Restored) > 0, l.Size <= manyNodes, byPlace:
		e = full
	case mayBeBrief:
		e = brief
	}

	fleet, err := c.api.listFleet(ctx, selectorOf(w), e, p.RackLabel)
	if err != nil {
		return err
	}
	switch {
	case selectorOf(w) == "":
	case l.State == turns.Restoring:
		// It has no turns and no failures yet: all Nodes say which there are.
		all, err := c.api.listNodes(ctx, "", true, p.RackLabel)
		if err != nil {
			return err
		}
		fleet = fleet.WithMarked(ledgerName(w), me, all)
	default:
		missing := slices.DeleteFunc(fleet.Missing(*l), func(name string) bool { return name == me.Node })
		others, err := c.api.nodesNamed(ctx, missing, byPlace, p.RackLabel)
		if err != nil {
			return err
		}
		fleet = fleet.WithUnselected(*l, others)
	}
	for i := range fleet {
		if fleet[i].Name == me.Node && e != full {
			fleet[i].Mark = mark
		}
	}
	c.listed = w.uptime
	c.conflicts = 0
	c.glance = fleet.Glance(p, *l, me, w.now)
	c.seen = &turns.Seen{Ledger: l, Fleet: fleet, Listed: true, Brief: e == brief}
	if l.Size > manyNodes && l.State == turns.Running {
		// While so many are listed, others write the ledger: it is read once more.
		c.keep(w, *c.seen)
		c.seen = nil
	}
	return nil
}
