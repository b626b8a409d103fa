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
)

// wanted is what the node's object is to carry of us: nil takes away.
type wanted struct {
	labels, annotations map[string]*string
}

// wantedOf decides it by what the cluster offers, nil if that is not known. What
// the Node says it runs stays while the node is on its way to something else.
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

// conditionType tells Gardener whether the units of a node are well.
const conditionType = "SystemdUnitsReady"

// stuck is how long a unit may be on its way.
const stuck = 5 * time.Minute

// condition is what the units come to, at uptime.
func condition(s status.Status, uptime time.Duration) (value core.ConditionStatus, reason, message string) {
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
	switch {
	case len(bad) > 0:
		return core.ConditionFalse, "UnhealthyUnits", strings.Join(bad, ", ")
	case len(busy) > 0:
		return core.ConditionTrue, "ProgressingUnits", strings.Join(busy, ", ")
	}
	return core.ConditionTrue, "AllUnitsHealthy", "all units are as wanted"
}

// conditionPatch is a strategic merge patch of the Node's status that sets the
// condition; nil if it is set.
func conditionPatch(n *core.Node, s status.Status, uptime time.Duration, now time.Time) []byte {
	value, reason, message := condition(s, uptime)
	next := core.NodeCondition{
		Type: conditionType, Status: value, Reason: reason, Message: message,
		LastHeartbeatTime: meta.NewTime(now), LastTransitionTime: meta.NewTime(now),
	}
	for _, c := range n.Status.Conditions {
		if c.Type != conditionType {
			continue
		}
		if c.Status == value && c.Reason == reason && c.Message == message {
			return nil
		}
		if c.Status == value {
			next.LastTransitionTime = c.LastTransitionTime
		}
	}
	text, _ := json.Marshal(map[string]any{"status": map[string]any{"conditions": []core.NodeCondition{next}}})
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
		if name = strings.TrimSpace(name); name != "" && !strings.Contains(name, ".") {
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

// next takes in that it does so now, and reports whether that is too often: once,
// the count begins anew then.
func (f flaps) next(now time.Time) (flaps, bool) {
	f = append(slices.DeleteFunc(slices.Clone(f), func(at time.Time) bool { return now.Sub(at) > flapsTime }), now)
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
