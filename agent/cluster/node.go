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

// wanted is what the node's object is to carry of us: nil takes away.
type wanted struct {
	labels, annotations map[string]*string
}

// wantedOf decides it by what the cluster offers, nil if that is not known.
// What the Node says it runs stays while the node is on its way to something
// else.
func wantedOf(c Config, n *core.Node, s status.Status, o *offer) wanted {
	w := wanted{labels: map[string]*string{}, annotations: map[string]*string{}}
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
		w.annotations[appliedAnnotation] = nil // It was taken back.
	}

	return w
}

// patch is a merge patch (RFC 7386) that makes n as wanted; nil if it is.
func (w wanted) patch(n *core.Node) []byte {
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

// Conditions of the Node: the first tells Gardener whether its units are well,
// the other whether it has fallen back from a system that is newer than what
// runs.
const (
	unitsReady    = "SystemdUnitsReady"
	upgradeFailed = "SystemUpgradeFailed"
)

// stuck is how long a unit may be on its way.
const stuck = 5 * time.Minute

// unitsCondition is what the units come to, at uptime. They are not as the
// cluster wants them while the node refuses the newest configuration, and
// nothing can be said of a node that has none.
func unitsCondition(s status.Status, r refusal, uptime time.Duration) core.NodeCondition {
	var bad, busy []string
	for _, u := range s.Units {
		moving := slices.Contains([]string{"activating", "deactivating", "reloading"}, u.Active)
		text := fmt.Sprintf("%s is %s/%s", u.Name, u.Active, u.Sub)
		switch {
		case u.Settled:
		case u.Sub == "auto-restart", moving && uptime-u.Since < stuck:
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

// upgradeCondition is what became of the newest system that was tried here.
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

// conditionPatch is a strategic merge patch of the Node's status that sets its
// conditions; nil if they are set. A condition that says nothing yet, of units
// without a configuration or of upgrades that have not failed, is not added. A
// refusal that an earlier run of the agent has told of stays until this one has
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

// self is the unit that the reference runs as.
const self = "gardener-node-agent.service"

// kubeletUnit is the kubelet's.
const kubeletUnit = "kubelet.service"

const restartReason = "SystemDUnitRestart"

// restarts are the units that an annotation of the Node asks to restart. A name
// without a type is a service. The agent itself need not be.
func restarts(annotation string) []string {
	var units []string
	for name := range strings.SplitSeq(annotation, ",") {
		name = strings.TrimSpace(name)
		if name != "" && !strings.Contains(name, ".") {
			name += ".service"
		}
		if name != "" && name != self {
			units = append(units, name)
		}
	}
	return units
}

// A Node whose kubelet comes and goes this often in this time is told of.
const (
	flapsMany = 5
	flapsTime = 10 * time.Minute
)

// flaps are the times at which a Node became ready again.
type flaps []time.Time

// next takes in that it does so now, and reports whether that is too often:
// once, the count begins anew then.
func (f flaps) next(now time.Time) (flaps, bool) {
	f = append(slices.DeleteFunc(slices.Clone(f), func(at time.Time) bool {
		return now.Sub(at) > flapsTime
	}), now)
	if len(f) < flapsMany {
		return f, false
	}
	return nil, true
}

// isNodeReady reports whether a Node is.
func isNodeReady(n *core.Node) bool {
	return n != nil && slices.ContainsFunc(n.Status.Conditions, func(c core.NodeCondition) bool {
		return c.Type == core.NodeReady && c.Status == core.ConditionTrue
	})
}
