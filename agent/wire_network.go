package agent

import (
	"context"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/network"
	"github.com/loam-os/loam/agent/networkd/watch"
)

// applyNetwork gives networkd the network of machine.yaml, or the recorded one
// if want is nil. A node is fresh if it runs no generation and no earlier run
// of the agent in this boot had a machine.yaml.
func (n *node) applyNetwork(ctx context.Context, want *network.Config) {
	n.network = watch.New(n.root, n.systemd)

	_, runs, err := n.engine.Current()
	fresh := err == nil && !runs && saidBefore(n.root).Machine == ""
	if err := n.network.Apply(ctx, durable.New(n.root, nil), want, fresh); err != nil {
		n.Log.Error("network", zap.Error(err))
		n.warn(err)
	}
	n.network.Observe()
}
