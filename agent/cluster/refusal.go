package cluster

import (
	"fmt"
	"maps"
	"slices"

	core "k8s.io/api/core/v1"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/hint"
)

// refusal is why a node does not run the configuration of its cluster, for the
// Node's condition and an Event. It is zero if the node runs it or is applying
// it.
type refusal struct {
	// reason is in CamelCase, as in conditions and Events.
	reason, message string
}

// heldReason is the reason of a configuration that an operator holds;
// refusalReasons are the others.
const heldReason = "OSCHeld"

var refusalReasons = map[status.Refusal]string{
	status.Invalid:     "OSCInvalid",
	status.Unavailable: "OSCUnavailable",
	status.NotApplied:  "OSCNotApplied",
	status.Reverted:    "OSCReverted",
}

// isRefusalReason reports whether reason stands for a refusal.
func isRefusalReason(reason string) bool {
	return reason == heldReason ||
		slices.Contains(slices.Collect(maps.Values(refusalReasons)), reason)
}

// refusalOf returns whether and why the node refuses p, which is nil if
// unknown. A refusal of an older document does not count.
func refusalOf(s status.Status, p *pendingConfig) refusal {
	switch {
	case p == nil || s.Offered != p.sum:
	case s.Refusal != "" && s.Error != nil:
		return refusal{refusalReasons[s.Refusal], s.Error.String()}
	case s.Held != nil:
		return refusal{heldReason, hint.Line(hint.With(
			fmt.Errorf("configuration %s is held by an operator: %s", s.Held.Digest, s.Held.Why),
			"`loam apply` ends that",
		))}
	}
	return refusal{}
}

// event returns the Event for a refusal. Later attempts may have other
// messages, for example when a registry does not answer; the condition has the
// newest.
func (r refusal) event() event {
	return event{core.EventTypeWarning, r.reason, r.message}
}

// maxMessage is the longest message of an Event, in bytes, but for the mark of a
// cut: events.k8s.io/v1 has 1024 for a note. A document may have very long values.
const maxMessage = 1000

// refusalRecord has the reasons that were reported to a Node for one document.
type refusalRecord struct {
	node, sum string
	reasons   map[string]bool
}

// isNew reports whether this reason was not yet reported to that Node for the
// document with that sum, and records it.
func (t *refusalRecord) isNew(node, sum, reason string) bool {
	if t.node != node || t.sum != sum {
		*t = refusalRecord{node, sum, map[string]bool{}}
	}
	before := t.reasons[reason]
	t.reasons[reason] = true
	return !before
}
