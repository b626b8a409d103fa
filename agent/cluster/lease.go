package cluster

import (
	"context"
	"time"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// leasePrefix and the Node's name make the name of the node's Lease. leaseTerm
// is how long it lasts without renewal, leaseRenew how often it is renewed.
// leaseEarly is by how much a renewal may be early, so that it is not late by
// another step.
const (
	leasePrefix = "gardener-node-agent-"
	leaseTerm   = 40 * time.Second
	leaseRenew  = 10 * time.Second
	leaseEarly  = 100 * time.Millisecond
)

// nodeLease is the node's own Lease, which shows that the agent is alive: its
// last known state, nil for none, and when it was last renewed.
type nodeLease struct {
	lease   *coordination.Lease
	renewed time.Time
}

// isDue reports whether to renew the Lease at now. A renewal in the future,
// after the clock was set back, is due.
func (l nodeLease) isDue(now time.Time) bool {
	return l.lease == nil || now.Before(l.renewed) ||
		!now.Before(l.renewed.Add(leaseRenew-leaseEarly))
}

// renewNodeLease makes l the Lease of Node n, renewed at now.
func renewNodeLease(l *coordination.Lease, n *core.Node, now time.Time) {
	holder := leasePrefix + n.Name
	term := int32(leaseTerm / time.Second)
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
	if w.node == nil {
		held.lease = nil
		return outcome{}, nil
	}
	if !held.isDue(w.now) {
		return outcome{wake: held.renewed.Add(leaseRenew)}, nil
	}

	l, err := c.api.putLease(ctx, held.lease, leasePrefix+w.node.Name,
		func(l *coordination.Lease) error {
			renewNodeLease(l, w.node, w.now)
			return nil
		})

	held.lease = l
	if err != nil {
		return outcome{}, err
	}

	held.renewed = w.now
	return outcome{wake: held.renewed.Add(leaseRenew)}, nil
}
