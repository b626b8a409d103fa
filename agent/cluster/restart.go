package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/plan"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/turns"
)

// ownUnit is the unit of the reference node agent, kubeletUnit the unit of the
// kubelet.
const (
	ownUnit     = "gardener-node-agent.service"
	kubeletUnit = "kubelet.service"
)

const restartReason = "SystemDUnitRestart"

// restartable are services that an annotation may restart although no
// configuration has them.
var restartable = []string{
	kubeletUnit,
	"containerd.service",
	"systemd-networkd.service",
	"systemd-resolved.service",
	"systemd-timesyncd.service",
	"systemd-journald.service",
}

// restarts returns the services that an annotation of the Node asks to restart,
// and the names that it refuses. A user who may patch a Node is not root on it,
// so only services of the configuration and a few of the system are restarted.
// A name without a suffix is a service. The unit of the reference node agent is
// skipped.
func restarts(annotation string, configured []status.Unit) (units, refused []string) {
	isConfigured := func(name string) bool {
		return slices.ContainsFunc(configured, func(u status.Unit) bool { return u.Name == name })
	}

	for name := range strings.SplitSeq(annotation, ",") {
		name = strings.TrimSpace(name)
		if name != "" && !strings.Contains(name, ".") {
			name += ".service"
		}

		allowed := slices.Contains(restartable, name) || (isConfigured(name) &&
			strings.HasSuffix(name, ".service") && !strings.HasPrefix(name, "loam"))
		switch {
		case name == "" || name == ownUnit:
		case allowed:
			units = append(units, name)
		default:
			refused = append(refused, name)
		}
	}

	return units, refused
}

// restartsOf returns the services that the Node asks to restart.
func restartsOf(w world) []string {
	if w.node == nil || w.status.Phase == "" { // The configuration is not known yet.
		return nil
	}
	units, _ := restarts(w.node.Annotations[restartAnnotation], w.status.Units)
	return units
}

// classOfRestart returns what a restart of services disturbs.
func classOfRestart(units []string) turns.Class {
	var p plan.Plan
	for _, name := range units {
		p.Units = append(p.Units, plan.Action{Verb: plan.Restart, Unit: name})
	}
	return turns.ClassOf(p)
}

// mayRestartServices reports whether the services that the Node names may be restarted
// now. With a policy, a node waits for its turn with that.
func mayRestartServices(w world) bool {
	switch {
	case w.restarting:
		return false
	case takesNoTurns(w), len(restartsOf(w)) == 0:
		return true
	}
	c := restartChange(w)
	return w.turn.isForRestart() && !c.drains && !c.checks && c.need == turns.NeedNothing
}

// restartHealthy returns what restarts units. If the kubelet is one of them, it
// waits until the kubelet is healthy.
func restartHealthy(env Env) func(ctx context.Context, units []string) error {
	return func(ctx context.Context, units []string) error {
		err := env.Restart(ctx, units)
		if err != nil || env.Kubelet == nil || !slices.Contains(units, kubeletUnit) {
			return err
		}
		return pollKubelet(ctx, env.Kubelet)
	}
}

// restartController removes the Node's annotation that asks to restart
// services, and restarts them in the background. The annotation goes first: a
// service that ends the agent, or the node, would be restarted again after each
// start.
type restartController struct {
	// remove removes the annotation from the Node.
	remove   func(ctx context.Context, w *world) error
	restarts restarter
}

func (c *restartController) step(ctx context.Context, w *world) (outcome, error) {
	if w.node == nil || w.status.Phase == "" || !mayRestartServices(*w) {
		return outcome{}, nil
	}

	annotation := w.node.Annotations[restartAnnotation]
	if annotation == "" {
		return outcome{}, nil
	}
	units, refused := restarts(annotation, w.status.Units)
	if err := c.remove(ctx, w); err != nil {
		return outcome{}, err
	}

	if len(refused) > 0 {
		c.restarts.inbox.event(true, restartReason, fmt.Sprintf(
			"not restarted: %s: only services of the configuration can be, and %s",
			strings.Join(refused, ", "), strings.Join(restartable, ", ")))
	}

	if len(units) > 0 {
		w.restarting = true
		c.restarts.run(units, func() { w.restarting = false })
	}
	return outcome{}, nil
}

// removeRestart removes the restart annotation from the Node.
func (a *api) removeRestart(ctx context.Context, w *world) error {
	remove := desiredMeta{annotations: map[string]*string{restartAnnotation: nil}}
	return a.patchNode(ctx, w, "", mergePatch, remove.patch(w.node))
}

// restarter restarts units in the background, even if the session ends, and
// records the result as an Event.
type restarter struct {
	restart func(ctx context.Context, units []string) error
	jobs    jobs
	inbox   inbox
}

// run restarts units. Then the goroutine of Run calls done.
func (r restarter) run(units []string, done func()) {
	r.jobs.run(func(ctx context.Context) error {
		err := r.restart(ctx, units)
		if err != nil {
			r.inbox.event(true, restartReason, err.Error())
		} else {
			r.inbox.event(false, restartReason, "restarted "+strings.Join(units, ", "))
		}
		return err
	}, func(error) { done() })
}
