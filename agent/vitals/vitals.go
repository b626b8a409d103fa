// Package vitals observes the health of a node for an upgrade.
package vitals

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/loam-os/loam/agent/liveness"
	"github.com/loam-os/loam/agent/metrics"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/upgrade"
)

// Node is the node whose health an upgrade compares before and after.
type Node struct {
	// Root is the root directory.
	Root string
	// Sampler asks the agent how the node stands.
	Sampler interface {
		Take(ctx context.Context) (metrics.Sample, error)
	}
	// Cluster says how the cluster sees the node; nil where it is part of none.
	Cluster interface {
		Link() status.Cluster
	}
}

// Health asks everything that can tell how the node is.
func (v Node) Health(ctx context.Context) upgrade.Health {
	ctx, cancel := context.WithTimeout(ctx, metrics.Limit)
	defer cancel()
	s, err := v.Sampler.Take(ctx)
	if err != nil {
		return nil
	}
	h := unitHealth(s.Status)
	v.probe(ctx, h, s.Status)
	if v.Cluster != nil {
		h["node"] = nodeHealth(v.Cluster.Link(), s.Status.ControlPlane)
	}
	h["gateway"] = gatewayHealth(v.read("proc/net/route"), v.read("proc/net/ipv6_route"))
	return h
}

func (v Node) read(name string) string {
	text, _ := os.ReadFile(filepath.Join(v.Root, name)) // Nothing is to be seen there, then.
	return string(text)
}

// unitHealth is how the configuration and its units are.
func unitHealth(s status.Status) upgrade.Health {
	h := upgrade.Health{}
	if s.Generation != "" {
		c := upgrade.Check{State: upgrade.Well}
		if s.Phase != status.Applied && !unitFailed(s) {
			c = upgrade.Check{State: upgrade.Ill, Detail: string(s.Phase)}
			if s.Error != nil {
				c.Detail = s.Error.Problem
			}
		}
		h["configuration"] = c
	}
	for _, u := range s.Units {
		c := upgrade.Check{State: upgrade.Well, Life: u.InvocationID}
		if !u.Settled {
			c = upgrade.Check{State: upgrade.Ill, Detail: u.Active + "/" + u.Sub}
		}
		h[upgrade.UnitCheck+u.Name] = c
	}
	return h
}

// unitFailed reports whether nothing is wrong with a configuration that is applied
// but a unit, which is judged by itself.
func unitFailed(s status.Status) bool {
	return s.IsApplied() && s.Error != nil && s.Error.Unit != ""
}

// probe asks containerd and kubelet themselves, where the configuration has them.
func (v Node) probe(ctx context.Context, h upgrade.Health, s status.Status) {
	for name, ask := range map[string]func(context.Context) error{
		"containerd.service": liveness.Containerd(filepath.Join(v.Root, liveness.ContainerdSocket)),
		"kubelet.service":    liveness.Kubelet(liveness.KubeletAddress),
	} {
		if liveness.StandingOf(name, s) == liveness.Absent {
			continue
		}
		c := upgrade.Check{State: upgrade.Well}
		if err := ask(ctx); err != nil {
			c = upgrade.Check{State: upgrade.Ill, Detail: err.Error()}
		}
		h[upgrade.AnswerCheck+name] = c
	}
}

// nodeHealth is how the cluster sees the node. An API server that cannot be
// reached says nothing about it, unless it is the node's own.
func nodeHealth(c status.Cluster, controlPlane bool) upgrade.Check {
	switch {
	case !c.Connected && controlPlane:
		return upgrade.Check{State: upgrade.Ill, Detail: "the API server, which is to run here, cannot be reached: " + c.Problem}
	case !c.Connected:
		return upgrade.Check{State: upgrade.Unclear, Detail: "the API server cannot be reached: " + c.Problem}
	case c.Node == "":
		return upgrade.Check{State: upgrade.Ill, Detail: "the cluster has no Node for it"}
	case !c.Ready:
		return upgrade.Check{State: upgrade.Ill, Detail: "Node " + c.Node + " is not ready"}
	}
	return upgrade.Check{State: upgrade.Well}
}

// gatewayHealth is whether there is a default route, by the texts of
// /proc/net/route and /proc/net/ipv6_route (proc_pid_net(5)).
func gatewayHealth(v4, v6 string) upgrade.Check {
	for line := range strings.Lines(v4) {
		if f := strings.Fields(line); len(f) > 7 && f[1] == "00000000" && f[7] == "00000000" {
			return upgrade.Check{State: upgrade.Well}
		}
	}
	for line := range strings.Lines(v6) {
		if f := strings.Fields(line); len(f) > 9 && f[0] == strings.Repeat("0", 32) && f[1] == "00" && f[9] != "lo" {
			return upgrade.Check{State: upgrade.Well}
		}
	}
	return upgrade.Check{State: upgrade.Ill, Detail: "there is no default route"}
}
