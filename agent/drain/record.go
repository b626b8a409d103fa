package drain

import (
	"encoding/json"
	"slices"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Annotation of a Node says that Loam drains it, or has drained it for a change.
const Annotation = "loam.dev/drain"

// record is the value of [Annotation].
type record struct {
	// Since is when the drain began.
	Since time.Time `json:"since"`

	// Cordoned says that the Node was not cordoned before.
	Cordoned bool `json:"cordoned"`
}

// IsUnderWay reports whether the Node has to be released.
func IsUnderWay(n *core.Node) bool {
	_, begun := recordOf(n)
	return begun
}

// recordOf returns the record of a Node, false if there is no drain. One that
// cannot be read is a drain that has taken too long, of a Node that was cordoned
// before.
func recordOf(n *core.Node) (r record, begun bool) {
	text, begun := n.Annotations[Annotation]
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		r = record{}
	}
	return r, begun
}

// cordonPatch begins a drain, unless the Node has changed since it was read.
func cordonPatch(n *core.Node, now time.Time) []byte {
	r := record{Cordoned: !n.Spec.Unschedulable}
	patch := patchOf(n, r.begun(now))
	if r.Cordoned {
		patch["spec"] = object{"unschedulable": true}
	}
	return encode(patch)
}

// againPatch begins the time of a drain again, unless the Node has changed since it was
// read.
func againPatch(n *core.Node, r record, now time.Time) []byte {
	return encode(patchOf(n, r.begun(now)))
}

// begun returns the text of r with now as the time at which the drain began.
func (r record) begun(now time.Time) string {
	r.Since = now.UTC().Truncate(time.Second)
	text, _ := json.Marshal(r) // A time and a bool only.
	return string(text)
}

// uncordonPatch ends a drain, unless the Node has changed since it was read.
func uncordonPatch(n *core.Node, r record) []byte {
	patch := patchOf(n, nil)
	if r.Cordoned {
		patch["spec"] = object{"unschedulable": nil}
	}
	return encode(patch)
}

type object = map[string]any

func patchOf(n *core.Node, annotation any) object {
	return object{"metadata": object{
		"resourceVersion": n.ResourceVersion,
		"annotations":     object{Annotation: annotation},
	}}
}

func encode(patch object) []byte {
	text, _ := json.Marshal(patch) // Strings, bools and times only.
	return text
}

// The conditions of a Node that is being drained, and of one that is drained and
// changes.
var (
	draining = []core.NodeConditionType{core.NodeMaintenancePlanned, core.NodeDrainInProgress}
	drained  = []core.NodeConditionType{core.NodeDrained, core.NodeMaintenanceInProgress}
)

// reason is the reason of the conditions. Those with another one are of others.
const reason = "LoamDrain"

var messages = map[core.NodeConditionType]string{
	core.NodeMaintenancePlanned:    "the node is about to change",
	core.NodeDrainInProgress:       "the node evicts its pods before a change",
	core.NodeDrained:               "the node has evicted its pods",
	core.NodeMaintenanceInProgress: "the node changes",
}

// conditionPatch returns a strategic merge patch of the Node's status that
// leaves it with the conditions in want only, nil if there is nothing to change.
func conditionPatch(n *core.Node, want []core.NodeConditionType, now time.Time) []byte {
	var changes []object
	for _, kind := range slices.Concat(draining, drained) {
		at := slices.IndexFunc(n.Status.Conditions,
			func(c core.NodeCondition) bool { return c.Type == kind })
		isTrue := at >= 0 && n.Status.Conditions[at].Status == core.ConditionTrue
		isOurs := at >= 0 && n.Status.Conditions[at].Reason == reason

		switch isWanted := slices.Contains(want, kind); {
		case isWanted && !isTrue:
			changes = append(changes, object{
				"type":               kind,
				"status":             core.ConditionTrue,
				"reason":             reason,
				"message":            messages[kind],
				"lastHeartbeatTime":  meta.NewTime(now),
				"lastTransitionTime": meta.NewTime(now),
			})
		case !isWanted && isOurs:
			changes = append(changes, object{"$patch": "delete", "type": kind})
		}
	}

	if len(changes) == 0 {
		return nil
	}
	return encode(object{"status": object{"conditions": changes}})
}
