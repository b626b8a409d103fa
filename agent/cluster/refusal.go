package cluster

import (
	"fmt"
	"maps"
	"slices"

	core "k8s.io/api/core/v1"

	"github.com/loam-os/loam/agent/status"
)

// refusal is why a node does not run what its cluster wants, for the condition
// of the Node and for an Event; the zero refusal is for one that does, or is on
// its way.
type refusal struct {
	// reason is in CamelCase, as conditions and Events have them.
	reason, message string
}

// heldReason is the reason of a configuration that an operator does not want,
// refusalReasons are those of the others.
const heldReason = "OSCHeld"

var refusalReasons = map[status.Refusal]string{
	status.Invalid:     "OSCInvalid",
	status.Unavailable: "OSCUnavailable",
	status.NotApplied:  "OSCNotApplied",
	status.Reverted:    "OSCReverted",
}

// isRefusalReason reports whether a condition has that reason because of a
// refusal.
func isRefusalReason(reason string) bool {
	return reason == heldReason ||
		slices.Contains(slices.Collect(maps.Values(refusalReasons)), reason)
}

// refusalOf decides whether the node refuses what the cluster offers, nil if
// that is not known. What the node said of an older document does not count any
// more.
func refusalOf(s status.Status, o *offer) refusal {
	switch {
	case o == nil || s.Offered != o.sum:
	case s.Refusal != "" && s.Error != nil:
		return refusal{refusalReasons[s.Refusal], s.Error.String()}
	case s.Held != nil:
		return refusal{
			heldReason,
			fmt.Sprintf("configuration %s is held by an operator: %s; hint: `loam apply` ends that",
				s.Held.Digest, s.Held.Why),
		}
	}
	return refusal{}
}

// maxMessage is the longest message of an Event, in characters. A document may
// have very long values.
const maxMessage = 1000

// told are the reasons why one document was refused that one Node was told of.
type told struct {
	node, sum string
	reasons   map[string]bool
}

// isNews reports whether that Node was not told of this reason yet, for the
// document with that sum, and notes that it is.
func (t *told) isNews(node, sum, reason string) bool {
	if t.node != node || t.sum != sum {
		*t = told{node, sum, map[string]bool{}}
	}
	before := t.reasons[reason]
	t.reasons[reason] = true
	return !before
}

// tellRefusal makes an Event of a refusal, once for each reason, document and
// Node. The message may be another at each try, as that of a registry that does
// not answer: the condition has the newest.
func (s *session) tellRefusal(r refusal) {
	if r == (refusal{}) || !s.told.isNews(string(s.node.UID), s.offer.sum, r.reason) {
		return
	}
	s.event(s.node, core.EventTypeWarning, r.reason, fmt.Sprintf("%.*s", maxMessage, r.message))
}
