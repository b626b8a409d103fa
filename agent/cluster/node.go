package cluster

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/firmware/bootentry"
)

// desiredMeta are the labels and annotations that the Node should have. A nil
// value removes the key.
type desiredMeta struct {
	labels, annotations map[string]*string
}

// desiredMetaOf returns what the Node should say, by the cluster's
// configuration; o is nil if that is unknown. The annotation of the applied
// configuration stays while the node is applying another.
func desiredMetaOf(c Config, n *core.Node, s status.Status, o *pendingConfig) desiredMeta {
	w := desiredMeta{labels: map[string]*string{}, annotations: map[string]*string{}}
	role := roleLabel + "worker"
	if s.ControlPlane {
		role = roleLabel + "control-plane"
	}

	w.labels[role] = new(string)
	if c.Zone != "" {
		w.labels[zoneLabel] = &c.Zone
	}

	switch {
	case o == nil:
	case s.Version == o.sum:
		w.annotations[appliedAnnotation] = &o.label
		if c.KubernetesVersion != "" {
			w.labels[versionLabel] = &c.KubernetesVersion
		}
	case s.Refused && s.Offered == o.sum && n.Annotations[appliedAnnotation] == o.label:
		w.annotations[appliedAnnotation] = nil // It was reverted.
	}

	return w
}

// patch returns a merge patch (RFC 7386) that makes n as desired, nil if it is
// already.
func (w desiredMeta) patch(n *core.Node) []byte {
	changes := map[string]any{}
	if labels := changed(w.labels, n.Labels); len(labels) > 0 {
		changes["labels"] = labels
	}
	if annotations := changed(w.annotations, n.Annotations); len(annotations) > 0 {
		changes["annotations"] = annotations
	}

	if len(changes) == 0 {
		return nil
	}

	text, _ := json.Marshal(map[string]any{"metadata": changes}) // Strings only.
	return text
}

func changed(want map[string]*string, have map[string]string) map[string]*string {
	want = maps.Clone(want)
	maps.DeleteFunc(want, func(key string, value *string) bool {
		is, ok := have[key]
		return value == nil && !ok || value != nil && ok && is == *value
	})
	return want
}

// Conditions of the Node. unitsReady tells Gardener whether the units are
// healthy, upgradeFailed whether the node fell back from a newer release.
const (
	unitsReady    = "SystemdUnitsReady"
	upgradeFailed = "SystemUpgradeFailed"
)

// stuckAfter is how long a unit may be starting or stopping.
const stuckAfter = 5 * time.Minute

// unitsCondition returns the condition of the units at uptime. It is False
// while the node refuses the newest configuration and Unknown on a node without
// one.
func unitsCondition(s status.Status, r refusal, uptime time.Duration) core.NodeCondition {
	var bad, busy []string
	for _, u := range s.Units {
		moving := slices.Contains([]string{"activating", "deactivating", "reloading"}, u.Active)
		text := fmt.Sprintf("%s is %s/%s", u.Name, u.Active, u.Sub)
		switch {
		case u.Settled:
		case u.Sub == "auto-restart", moving && uptime-u.Since < stuckAfter:
			busy = append(busy, text)
		default:
			bad = append(bad, text)
		}
	}

	condition := func(is core.ConditionStatus, reason, message string) core.NodeCondition {
		return core.NodeCondition{
			Type:    unitsReady,
			Status:  is,
			Reason:  reason,
			Message: message,
		}
	}

	switch {
	case r.reason != "":
		return condition(core.ConditionFalse, r.reason,
			strings.Join(append([]string{r.message}, bad...), ", "))
	case s.Generation == "":
		return condition(core.ConditionUnknown, "NoConfiguration", "the node has no configuration")
	case len(bad) > 0:
		return condition(core.ConditionFalse, "UnhealthyUnits", strings.Join(bad, ", "))
	case len(busy) > 0:
		return condition(core.ConditionTrue, "ProgressingUnits", strings.Join(busy, ", "))
	}

	return condition(core.ConditionTrue, "AllUnitsHealthy", "all units are as wanted")
}

// upgradeCondition returns the outcome of the newest release that was tried on
// this node.
func upgradeCondition(s status.Status) core.NodeCondition {
	c := core.NodeCondition{
		Type:    upgradeFailed,
		Status:  core.ConditionFalse,
		Reason:  "NoFailure",
		Message: s.ImageID + " " + s.ImageVersion + " runs",
	}

	if s.Upgrade == nil {
		return c
	}

	for _, f := range s.Upgrade.Failed {
		if bootentry.CompareVersions(f.Version, s.ImageVersion) > 0 {
			c.Status = core.ConditionTrue
			c.Reason = "FellBack"
			c.Message = fmt.Sprintf(
				"%s did not stay, %s runs again: %s", f.Version, s.ImageVersion, f.Reason,
			)
		}
	}

	return c
}

// conditionPatch returns a strategic merge patch of the Node's status that sets
// its conditions, nil if they are set. It does not add a condition without
// content: units without a configuration, or upgrades that have not failed. A
// refusal that an earlier run of the agent reported stays until this run has
// read a document.
func conditionPatch(
	n *core.Node, s status.Status, r refusal, uptime time.Duration, now time.Time,
) []byte {
	var changes []core.NodeCondition
	for _, next := range []core.NodeCondition{unitsCondition(s, r, uptime), upgradeCondition(s)} {
		next.LastHeartbeatTime = meta.NewTime(now)
		next.LastTransitionTime = meta.NewTime(now)

		at := slices.IndexFunc(n.Status.Conditions, func(c core.NodeCondition) bool {
			return c.Type == next.Type
		})
		if at < 0 {
			if next.Type == unitsReady && next.Status != core.ConditionUnknown ||
				next.Status == core.ConditionTrue {
				changes = append(changes, next)
			}
			continue
		}

		have := n.Status.Conditions[at]
		if s.Offered == "" && isRefusalReason(have.Reason) {
			continue
		}

		if have.Status == next.Status {
			next.LastTransitionTime = have.LastTransitionTime
		}

		if have.Status != next.Status || have.Reason != next.Reason ||
			have.Message != next.Message {
			changes = append(changes, next)
		}
	}

	if len(changes) == 0 {
		return nil
	}

	text, _ := json.Marshal(map[string]any{"status": map[string]any{"conditions": changes}})
	return text
}

// ownUnit is the unit of the reference node agent.
const ownUnit = "gardener-node-agent.service"

// kubeletUnit is the unit of the kubelet.
const kubeletUnit = "kubelet.service"

const restartReason = "SystemDUnitRestart"

// restarts returns the units that an annotation of the Node asks to restart. A
// name without a suffix is a service. The agent's own unit is skipped.
func restarts(annotation string) []string {
	var units []string
	for name := range strings.SplitSeq(annotation, ",") {
		name = strings.TrimSpace(name)
		if name != "" && !strings.Contains(name, ".") {
			name += ".service"
		}
		if name != "" && name != ownUnit {
			units = append(units, name)
		}
	}
	return units
}

// A Node whose kubelet becomes ready maxFlaps times within flapWindow is
// reported as flapping.
const (
	maxFlaps   = 5
	flapWindow = 10 * time.Minute
)

// flaps are the times at which a Node became ready again.
type flaps []time.Time

// next adds now and reports whether the Node is flapping. Then the count starts
// over.
func (f flaps) next(now time.Time) (flaps, bool) {
	f = append(slices.DeleteFunc(slices.Clone(f), func(at time.Time) bool {
		return now.Sub(at) > flapWindow
	}), now)
	if len(f) < maxFlaps {
		return f, false
	}
	return nil, true
}

// isNodeReady reports whether n has condition Ready=True.
func isNodeReady(n *core.Node) bool {
	return n != nil && slices.ContainsFunc(n.Status.Conditions, func(c core.NodeCondition) bool {
		return c.Type == core.NodeReady && c.Status == core.ConditionTrue
	})
}
