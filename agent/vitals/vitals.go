// Package vitals observes the health of a node, which an upgrade compares
// before and after: the configuration, each of its units, whether containerd
// and the kubelet answer, the Node in the cluster, and the default route. It
// also reads what the boots of a failed system have left.
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
	"github.com/loam-os/loam/hint"
)

// Sampler returns the state of the agent.
type Sampler interface {
	Take(ctx context.Context) (metrics.Sample, error)
}

// Cluster returns how the cluster sees the node; see cluster.Cluster.
type Cluster interface {
	Link() status.Cluster
}

// Observer observes the health of a node.
type Observer struct {
	// Root is the root directory.
	Root    string
	Sampler Sampler
	// Cluster is nil if the node is in no cluster.
	Cluster Cluster
}

// Health observes the node; nil if the agent does not answer in time.
func (o Observer) Health(ctx context.Context) upgrade.Health {
	ctx, cancel := context.WithTimeout(ctx, metrics.Limit)
	defer cancel()

	sample, err := o.Sampler.Take(ctx)
	if err != nil {
		return nil
	}

	health := configurationHealth(sample.Status)
	o.probe(ctx, health, sample.Status)
	if o.Cluster != nil {
		health["node"] = nodeHealth(o.Cluster.Link(), sample.Status.ControlPlane)
	}
	health["gateway"] = gatewayHealth(o.read("proc/net/route"), o.read("proc/net/ipv6_route"))
	return health
}

// read returns the text of a file, empty if it cannot be read.
func (o Observer) read(name string) string {
	text, _ := os.ReadFile(filepath.Join(o.Root, name))
	return string(text)
}

// configurationHealth returns the health of the configuration and of its units.
func configurationHealth(s status.Status) upgrade.Health {
	health := upgrade.Health{}
	if s.Generation != "" {
		check := upgrade.Check{State: upgrade.Well}
		if s.Phase != status.Applied && !onlyUnitFailed(s) {
			check = upgrade.Check{State: upgrade.Ill, Detail: string(s.Phase)}
			if s.Error != nil {
				check.Detail = s.Error.Problem
			}
		}
		health["configuration"] = check
	}

	for _, u := range s.Units {
		check := upgrade.Check{State: upgrade.Well, Life: u.InvocationID}
		if !u.Settled {
			check = upgrade.Check{State: upgrade.Ill, Detail: u.Active + "/" + u.Sub}
		}
		health[upgrade.UnitCheck+u.Name] = check
	}
	return health
}

// onlyUnitFailed reports whether the configuration is applied and the only
// problem is a unit, which has a check of its own.
func onlyUnitFailed(s status.Status) bool {
	return s.IsApplied() && s.Error != nil && s.Error.Unit != ""
}

// probe calls containerd and the kubelet themselves, as far as the
// configuration has them.
func (o Observer) probe(ctx context.Context, health upgrade.Health, s status.Status) {
	probes := map[string]func(context.Context) error{
		"containerd.service": liveness.Containerd(filepath.Join(o.Root, liveness.ContainerdSocket)),
		"kubelet.service":    liveness.Kubelet(liveness.KubeletAddress),
	}
	for name, probe := range probes {
		if liveness.StandingOf(name, s) == liveness.Absent {
			continue
		}
		check := upgrade.Check{State: upgrade.Well}
		if err := probe(ctx); err != nil {
			check = upgrade.Check{State: upgrade.Ill, Detail: hint.Line(err)}
		}
		health[upgrade.AnswerCheck+name] = check
	}
}

// nodeHealth returns how the cluster sees the node. An API server that cannot
// be reached says nothing about the node, unless it is to run there.
func nodeHealth(c status.Cluster, controlPlane bool) upgrade.Check {
	switch {
	case !c.Connected && controlPlane:
		return upgrade.Check{
			State:  upgrade.Ill,
			Detail: "the API server, which is to run here, cannot be reached: " + c.Problem,
		}
	case !c.Connected:
		return upgrade.Check{
			State:  upgrade.Unclear,
			Detail: "the API server cannot be reached: " + c.Problem,
		}
	case c.Node == "":
		return upgrade.Check{State: upgrade.Ill, Detail: "the cluster has no Node for it"}
	case !c.Ready:
		return upgrade.Check{State: upgrade.Ill, Detail: "Node " + c.Node + " is not ready"}
	}

	return upgrade.Check{State: upgrade.Well}
}

// gatewayHealth returns whether there is a default route. v4 and v6 are the
// texts of /proc/net/route and /proc/net/ipv6_route (proc_pid_net(5)).
func gatewayHealth(v4, v6 string) upgrade.Check {
	if hasDefaultRoute4(v4) || hasDefaultRoute6(v6) {
		return upgrade.Check{State: upgrade.Well}
	}
	return upgrade.Check{State: upgrade.Ill, Detail: "there is no default route"}
}

func hasDefaultRoute4(routes string) bool {
	const (
		destination = 1
		mask        = 7
		zero        = "00000000"
	)
	for line := range strings.Lines(routes) {
		f := strings.Fields(line)
		if len(f) > mask && f[destination] == zero && f[mask] == zero {
			return true
		}
	}
	return false
}

// hasDefaultRoute6 leaves out the kernel's own default route on lo, which
// rejects.
func hasDefaultRoute6(routes string) bool {
	const (
		destination  = 0
		prefixLength = 1
		device       = 9
	)
	zero := strings.Repeat("0", 32)
	for line := range strings.Lines(routes) {
		f := strings.Fields(line)
		if len(f) > device && f[destination] == zero && f[prefixLength] == "00" &&
			f[device] != "lo" {
			return true
		}
	}
	return false
}
