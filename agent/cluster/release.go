package cluster

import (
	"context"
	"fmt"
	"strings"

	"github.com/loam-os/loam/agent/inplace"
	"github.com/loam-os/loam/agent/turns"
)

// releaseAction is what to do with the pending configuration.
type releaseAction string

const (
	releaseWait    releaseAction = "wait"
	releaseAcquire releaseAction = "acquire" // Take the Lease of the rollout, then release.
	releaseNow     releaseAction = "release"
)

// decideRelease decides whether the node may have the pending configuration:
//   - With a policy, the Secrets that it refers to are read first.
//   - A node that keeps its system waits with an update in place of it.
//   - The delay spreads nodes without a serial rollout. A node without a
//     configuration does not wait.
//   - A change that needs a drained node waits until it is drained; step is the
//     next step of the update in place.
//   - With a policy, a change that disturbs the node waits for a turn.
//   - In a serial rollout, nodes take turns.
func decideRelease(w world, step inplace.Step, t turn) (releaseAction, outcome) {
	p := w.pending
	if p == nil || isReleased(w) {
		return releaseWait, outcome{}
	}

	if w.awaitsValues() {
		return releaseWait, outcome{wake: p.since.Add(secretTimeout)}
	}

	spreads := !p.serial && p.policy == nil
	if at := p.since.Add(w.delay); w.changes() && spreads && w.now.Before(at) {
		return releaseWait, outcome{wake: at}
	}

	switch {
	case keepsSystem(w):
		return releaseWait, outcome{
			blocked: "update in place: machine.yaml holds the system: " + heldOf(w.status),
		}
	case step == inplace.Await:
		return releaseWait, outcome{}
	case spreads:
		return releaseNow, outcome{}
	case !w.nodeKnown:
		return releaseWait, outcome{}
	case !needsTurn(w):
		return releaseNow, outcome{}
	case p.policy != nil:
		return releaseByPolicy(w, step), outcome{}
	}

	switch t.state {
	case turnOurs:
		return releaseNow, outcome{}
	case turnFree:
		return releaseAcquire, outcome{}
	case turnTaken:
		return releaseWait, outcome{wake: w.now.Add(t.rest), blocked: "turn of " + t.holder}
	}
	return releaseWait, outcome{}
}

// releaseByPolicy releases a configuration that disturbs nothing, that the node
// has a turn for, or that has failed here before: the node holds that one. If it
// stops pods, the node is drained first. step is the next step of the update in
// place.
func releaseByPolicy(w world, step inplace.Step) releaseAction {
	class, known := w.turn.class(w)
	kept := w.turn.kept
	switch {
	case kept.Failed == w.pending.sum, known && class == turns.None:
		return releaseNow
	case !w.turn.isForConfiguration(), w.turn.isVoid(w.node), mustPrepare(w, step),
		w.turn.postponed() != "":
		return releaseWait
	case isReplaced(w, step):
		return releaseWait // The turn is given first.
	case !known && kept.Changes() != w.pending.sum && w.status.Change == nil:
		return releaseWait // It may stop pods, unlike the one of the turn.
	}
	return releaseNow
}

// isReplaced reports whether the node has its turn for a configuration that another
// one has replaced. That one waits for a turn of its own, as the first nodes may find
// it bad. An update in place goes on within its turn, and a node between two
// configurations gets the newer one at once: it may be what lets it go on.
func isReplaced(w world, step inplace.Step) bool {
	return w.turn.isForConfiguration() && w.pending != nil && !w.awaitsValues() &&
		w.turn.kept.Changes() != w.pending.sum &&
		step == inplace.Nothing && !w.status.Unfinished
}

// withdraws reports whether the node is not to have the configuration of its turn any
// more, as another one has replaced it, and it has neither been proven nor failed. What
// the node has begun, it completes.
func withdraws(w world, step inplace.Step) bool {
	return isReplaced(w, step) && replacedChange(w).need == turns.NeedNothing &&
		isGiven(w) && w.status.Change == nil && !w.status.Changing
}

// isGiven reports whether the node was given the configuration that it has its turn for.
func isGiven(w world) bool {
	return w.released != nil && w.released.sum == w.turn.kept.Changes()
}

// isReleased reports whether the node was given the pending configuration. One
// that it is to try once more is given to it again.
func isReleased(w world) bool {
	return w.released != nil && w.released.sum == w.pending.sum && !isRetried(w)
}

// keepsSystem reports whether the pending configuration would bring another system
// to a node that keeps its own.
func keepsSystem(w world) bool {
	u := w.pending.update
	return heldOf(w.status) != "" && u != nil && u.OS != "" && u.OS != w.status.ImageVersion
}

// needsTurn reports whether the pending configuration would disturb the node's
// workload. A new node has none. Gardener's authorizer refuses the Lease while
// there is no Node, so a new node does not wait until it has seen the Lease.
//
// With a policy, the exact plan says whether an agent that has just started would
// disturb anything. Its Node does not: it does not name the values of Secrets, and
// what it says may be of another machine, or of a later disk than the one that a
// machine was restored from. A Node that was deleted says nothing when it is back.
func needsTurn(w world) bool {
	switch {
	case w.node == nil:
		return false
	case w.changes(), isRetried(w):
		return true
	}
	runs := w.node.Annotations[appliedAnnotation]
	if w.pending.policy == nil {
		return runs != "" && runs != w.pending.label
	}
	isKnown := w.status.Phase != ""
	return runs != "" || !isKnown || strings.HasPrefix(w.status.Source, secretSource(""))
}

// secretSource is the name of a Secret as a source of configurations.
func secretSource(name string) string { return fmt.Sprintf("Secret %s/%s", namespace, name) }

// releaseController releases the pending configuration to the node.
type releaseController struct {
	released *released
	rollout  *rolloutController
	updates  *updateController
	retries  *retryController
}

func (c *releaseController) step(ctx context.Context, w *world) (outcome, error) {
	step := c.updates.updates.next(*w)
	if withdraws(*w, step) {
		w.released = w.released.withdrawn(w.turn.kept.Holder.ID)
		c.released.set(w.released)
	}
	action, out := decideRelease(*w, step, c.rollout.turn(*w))

	switch action {
	case releaseWait:
		return out, nil
	case releaseAcquire:
		if ok, err := c.rollout.acquire(ctx, *w); err != nil || !ok {
			return out, err
		}
	}

	if err := c.updates.begin(step, *w); err != nil {
		return out, err
	}

	retry, err := c.retries.begin(w)
	if err != nil {
		return out, err
	}
	w.released = w.pending
	c.released.set(w.released)
	if retry {
		c.retries.apply(w)
	}
	return out, nil
}
