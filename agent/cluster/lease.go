package cluster

import (
	"context"
	"time"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// leasePrefix and the Node's name make the name of the node's Lease.
const leasePrefix = "gardener-node-agent-"

// leaseEarly is by how much a renewal may be early, so that it is not late by
// another step.
const leaseEarly = 100 * time.Millisecond

// leaseTimes are how long the node's Lease lasts without renewal, and how often
// it is renewed.
type leaseTimes struct{ term, renew time.Duration }

// leaseTimesOf returns the times of Gardener's contract in Gardener, which reads
// the Lease. Elsewhere only people do, and 5,000 nodes renew it.
func leaseTimesOf(c Config) leaseTimes {
	if c.Gardener {
		return leaseTimes{term: 40 * time.Second, renew: 10 * time.Second}
	}
	return leaseTimes{term: 4 * time.Minute, renew: time.Minute}
}

// nodeLease is the node's own Lease, which shows that the agent is alive: its
// last known state, nil if none, and when it was last renewed.
type nodeLease struct {
	lease   *coordination.Lease
	renewed time.Time
}

// isDue reports whether to renew the Lease at now. A renewal in the future,
// after the clock was set back, is due.
func (l nodeLease) isDue(now time.Time, times leaseTimes) bool {
	return l.lease == nil || now.Before(l.renewed) ||
		!now.Before(l.renewed.Add(times.renew-leaseEarly))
}

// renewNodeLease makes l the Lease of Node n for that term, renewed at now.
func renewNodeLease(l *coordination.Lease, n *core.Node, now time.Time, lasts time.Duration) {
	holder := leasePrefix + n.Name
	term := int32(lasts / time.Second)
	renewed := meta.NewMicroTime(now)

	l.OwnerReferences = []meta.OwnerReference{{
		APIVersion: "v1",
		Kind:       "Node",
		Name:       n.Name,
		UID:        n.UID,
	}}
	l.Spec.HolderIdentity = &holder
	l.Spec.LeaseDurationSeconds = &term
	l.Spec.RenewTime = &renewed
}

// leaseController renews the node's own Lease.
type leaseController struct {
	api  *api
	held *nodeLease
}

func (c *leaseController) step(ctx context.Context, w *world) (outcome, error) {
	held := c.held
	times := leaseTimesOf(w.config)
	if w.node == nil {
		held.lease = nil
		return outcome{}, nil
	}
	if !held.isDue(w.now, times) {
		return outcome{wake: held.renewed.Add(times.renew)}, nil
	}

	l, err := c.api.putLease(ctx, held.lease, leasePrefix+w.node.Name,
		func(l *coordination.Lease) error {
			renewNodeLease(l, w.node, w.now, times.term)
			return nil
		})

	held.lease = l
	if err != nil {
		return outcome{}, err
	}

	held.renewed = w.now
	return outcome{wake: held.renewed.Add(times.renew)}, nil
}
