package recorded

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/loam-os/loam/agent/drift"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/liveness"
	"github.com/loam-os/loam/agent/loop"
	"github.com/loam-os/loam/agent/metrics"
)

// Complete gives the node what an agent has besides its loop, before Run: a
// watch over its managed paths, one over the kubelet at an address and the
// containerd behind a socket, and metrics on a port of loopback. What is left
// to a real one are systemd's connection and signals, and the socket for
// people.
func (n *Node) Complete(kubelet, containerd string) error {
	// On a node this is a mount; a watcher follows the link within the
	// directory.
	view := filepath.Join(n.Dir, generation.View)
	if err := os.Symlink(generation.Dir, view); err != nil && !os.IsExist(err) {
		return fmt.Errorf("complete a node: %w", err)
	}

	watcher := drift.New()
	n.close = append(n.close, watcher.Close)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("complete a node: %w", err)
	}

	queries := make(loop.Queries)
	n.Agent.Drift = watcher
	n.Agent.Queries = queries
	n.beside = append(n.beside,
		func(ctx context.Context) error {
			return metrics.Serve(ctx, listener, metrics.Handler(queries.Take))
		},
		func(ctx context.Context) error {
			n.watchOver(queries, kubelet, containerd).Run(ctx)
			return nil
		})

	return nil
}

// watchOver is as the agent has it.
func (n *Node) watchOver(queries loop.Queries, kubelet, containerd string) liveness.Watch {
	return liveness.Watch{
		Probes: map[string]func(context.Context) error{
			"containerd.service": liveness.Containerd(containerd),
			"kubelet.service":    liveness.Kubelet(kubelet),
		},
		Standings: func(ctx context.Context, units []string) (map[string]liveness.Standing, error) {
			s, err := queries.Take(ctx)
			all := map[string]liveness.Standing{}
			for _, name := range units {
				all[name] = liveness.StandingOf(name, s.Status)
			}
			return all, err
		},
		Restart: n.requests.RestartUnits,
		Report: func(e liveness.Event) {
			n.Cluster.Event(e.Word != liveness.Recovered, "UnitHealth", e.Text())
		},
	}
}
