package agent

import (
	"context"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/network"
	"github.com/loam-os/loam/agent/networkd/watch"
)

// settleNetwork sees to it that networkd, which waits for the agent at boot, has the
// network of machine.yaml, want, or else what was kept of the last one. A networkd that
// runs has made interfaces that it would not take away or change: another network
// is kept for the next boot, and the way by which the node is reached now stays as it is.
// But of a node that has had no document in this boot, and runs no generation that was
// made of an earlier one, nothing was made yet.
func (n *node) settleNetwork(ctx context.Context, want *network.Config) {
	n.network = watch.New(n.root, n.systemd)
	_, runs, err := n.engine.Current()
	fresh := err == nil && !runs && saidBefore(n.root).Machine == ""
	if err := n.network.Settle(ctx, durable.New(n.root, nil), want, fresh); err != nil {
		n.Log.Error("network", zap.Error(err))
		n.warn(err)
	}
	n.network.Look()
}
