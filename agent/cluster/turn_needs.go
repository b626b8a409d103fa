package cluster

import (
	"fmt"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"

	"github.com/loam-os/loam/agent/inplace"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/turns"
)

// change is something that a node needs a turn for, or has a turn for.
type change struct {
	need turns.Need

	// why is why it has failed.
	why string

	// target, own and version are as in [turns.Me].
	target, own, version string
	revision             uint64
	class                turns.Class

	// drains says that the node, which has its turn, has to evict its pods before
	// the change begins, and checks that it has, and reads the ledger once more.
	drains, checks bool
}

// prepare has the node do what comes before a change that stops pods, if it must.
func (c *change) prepare(t turnOfPool, must bool) {
	c.drains = must && !t.isDrained()
	c.checks = must && t.isDrained() && !t.isPrepared()
}

// isOver reports whether the change of a turn is over, or does not begin.
func (c change) isOver() bool {
	return c.need != turns.NeedNothing && c.need != turns.NeedTurn
}

// changesOf returns the changes that the node may do next: the one that it has a
// turn for, or else all that need a turn. There is at least one. update is the
// next step of the update in place, wanted the system that an upgrade is to
// restart with; isKnown says that this is known.
func changesOf(w world, update inplace.Step, wanted system, isKnown bool) []change {
	kept := w.turn.kept
	config := configurationChange(w, update)
	system := systemChange(w, wanted, isKnown)
	restart := restartChange(w)
	switch {
	case kept.Phase == turns.Over:
	case kept.Holder.Version != "":
		return []change{system}
	case kept.Holder.Target == "":
		return []change{restart}
	default:
		return []change{config}
	}

	all := []change{config, system, restart}
	waiting := slices.DeleteFunc(all, func(c change) bool { return c.need != turns.NeedTurn })
	if len(waiting) == 0 {
		return []change{config}
	}
	return waiting
}

// restartChange returns the restart of the services that the Node's annotation
// names. The node gives its turn once they have been restarted, or are not to be
// any more, and its Node is Ready.
func restartChange(w world) change {
	p := w.pending
	units := restartsOf(w)
	c := change{class: classOfRestart(units)}
	holds := w.turn.isForRestart()
	c.prepare(w.turn, holds && len(units) > 0 && c.class >= turns.Pods)
	switch {
	case holds && len(units) > 0 && w.turn.postponed() != "":
		c.need = turns.NeedPostpone
		c.why = w.turn.postponed()
	case holds && len(units) > 0 && w.turn.isVoid(w.node):
		c.need = turns.NeedReturn
	case holds && len(units) > 0 && !w.restarting && isPinned(w.node):
		c.need = turns.NeedReturn
	case holds && len(units) == 0 && !w.restarting && isNodeReady(w.node) && !isChanging(w):
		c.need = turns.NeedGive
	case holds:
	case len(units) > 0 && p != nil && p.policy != nil && p.policyErr == nil:
		c.need = turns.NeedTurn
	}
	return c
}

// isChanging reports whether the node applies a configuration, or is about to complete one
// that was cut off. It does that in any turn, which it gives after that.
func isChanging(w world) bool { return w.status.Changing || w.status.Change != nil }

// isPinned reports whether an operator keeps a Node from changing.
func isPinned(n *core.Node) bool {
	if n == nil {
		return false
	}
	_, ok := n.Labels[pinnedLabel]
	return ok
}

// configurationChange returns the change to the pending configuration.
//
// An update in place waits for its drained node first: update is its next step.
// The node keeps its turn until the update is done.
func configurationChange(w world, update inplace.Step) change {
	c := change{class: w.turn.classified.class}
	p := w.pending
	if p == nil || w.status.Phase == "" {
		return c
	}
	c.target = p.target
	c.own = p.sum
	c.revision = p.revision
	if update != inplace.Nothing && p.update != nil && p.update.OS != "" &&
		p.update.OS != w.status.ImageVersion {
		c.class = turns.Reboot // Its last step restarts the machine.
	}

	if isReplaced(w, update) {
		return replacedChange(w)
	}

	released := isReleased(w)
	holds := w.turn.isForConfiguration()
	c.prepare(w.turn, mustPrepare(w, update))
	switch {
	case holds && w.turn.postponed() != "":
		c.need = turns.NeedPostpone
		c.why = w.turn.postponed()
	case holds && !released && (w.turn.isVoid(w.node) || isPinned(w.node)):
		c.need = turns.NeedReturn
	case released && update == inplace.GaveUp:
		c.need = turns.NeedFail
		c.why = fmt.Sprintf("the node came back with version %s, not %s",
			w.status.ImageVersion, p.update.OS)
	case released && update == inplace.OS && p.policy != nil && p.policyErr == nil && !holds:
		c.need = turns.NeedTurn // An operator wants it tried again.
	case released && w.ready == p.sum && w.status.Change == nil && isNodeReady(w.node) &&
		update == inplace.Nothing:
		c.need = turns.NeedGive
	case released && hasFailed(w, p):
		c.need = turns.NeedFail
		c.why = fmt.Sprintf("%.*s", maxMessage, refusalOf(w.status, p).message)
	case released:
	case p.policy == nil, p.policyErr != nil, update == inplace.Await, !needsTurn(w),
		keepsSystem(w), w.turn.kept.Failed == p.sum:
	default:
		class, known := w.turn.class(w)
		if known && class != turns.None {
			c.need = turns.NeedTurn
		}
	}
	return c
}

// mustPrepare reports whether the node, which has its turn, has yet to be prepared
// before it is given the pending configuration: that stops pods. update is the next step of an
// update in place: Gardener drains the node for that one. A change that has begun
// in an earlier run of the agent needs no other drain.
func mustPrepare(w world, update inplace.Step) bool {
	hasBegun := isReleased(w) || w.status.Version == w.pending.sum || w.status.Change != nil
	if !w.turn.isForConfiguration() || w.turn.isPrepared() || hasBegun || !needsTurn(w) ||
		update != inplace.Nothing {
		return false
	}

	class, known := w.turn.class(w)
	if !known {
		class = w.turn.kept.Holder.Class
	}
	return class >= turns.Pods
}

// replacedChange returns the change to the configuration that the node has its turn
// for, and that another one has replaced. The node gives its turn once that cannot
// disturb anything any more: it was withdrawn, or never given to the node.
func replacedChange(w world) change {
	kept := w.turn.kept.Holder
	c := change{target: kept.Target, own: w.turn.kept.Own, class: kept.Class}
	s := w.status
	r := w.released
	if isGiven(w) {
		c.revision = r.revision
		switch {
		case w.ready == r.sum && s.Change == nil && isNodeReady(w.node):
			c.need = turns.NeedGive
		case hasFailed(w, r):
			c.need = turns.NeedFail
			c.why = fmt.Sprintf("%.*s", maxMessage, refusalOf(s, r).message)
		}
		return c
	}

	if s.Change == nil && !s.Changing && (r == nil || s.Offered == r.sum) {
		c.need = turns.NeedReturn
	}
	return c
}

// hasFailed reports whether the node will not run a configuration that it was given. A
// problem that may pass is no failure: the node keeps its turn. So does a node
// that tries it once more.
func hasFailed(w world, p *pendingConfig) bool {
	s := w.status
	if s.Offered != p.sum || s.Change != nil || w.turn.retrying {
		return false
	}
	return s.Refusal == status.Invalid || s.Refusal == status.Reverted || s.Held != nil
}

// systemChange returns the change to another system. The node is drained before
// the restart. It keeps its turn over the restart, and gives it when the system
// has proven itself or has failed.
func systemChange(w world, wanted system, isKnown bool) change {
	kept := w.turn.kept
	c := change{
		target:   wanted.target,
		version:  wanted.version,
		revision: uint64(max(0, w.now.Unix())),
		class:    turns.Reboot,
	}
	if kept.Phase != turns.Over && kept.Holder.Version != "" {
		c.target = kept.Holder.Target
		c.version = kept.Holder.Version
		c.revision = uint64(max(0, kept.Holder.Since.Unix()))
	}

	u := w.status.Upgrade
	if u == nil || w.status.Phase == "" || c.target == "" {
		return c
	}
	underWay := u.Phase != "" && turns.SystemTarget(u.Target) == c.target
	isArmed := underWay && u.Phase == "armed"
	isWanted := !isKnown || wanted.target == c.target

	if !w.turn.isForSystem() {
		p := w.pending
		takesTurns := p != nil && p.policy != nil && p.policyErr == nil && w.node != nil
		if takesTurns && isArmed && isWanted {
			c.need = turns.NeedTurn
		}
		return c
	}

	c.prepare(w.turn, isArmed && isKnown && isWanted)
	failed := slices.IndexFunc(u.Failed, func(f status.FailedSystem) bool {
		return turns.SystemTarget(f.RootHash) == c.target
	})
	switch {
	case isArmed && w.turn.postponed() != "":
		c.need = turns.NeedPostpone
		c.why = w.turn.postponed()
	case isArmed && (w.turn.isVoid(w.node) || (isPinned(w.node) && !w.turn.isPrepared())):
		c.need = turns.NeedReturn
	case underWay && (isWanted || u.Phase == "trial"):
	case underWay:
		c.need = turns.NeedReturn
	case turns.SystemTarget(w.status.RootHash) == c.target:
		if isNodeReady(w.node) && !isChanging(w) {
			c.need = turns.NeedGive
		}
	case failed >= 0:
		c.need = turns.NeedFail
		reason, _, _ := strings.Cut(u.Failed[failed].Reason, "\n")
		c.why = fmt.Sprintf("version %s: %.*s", c.version, maxMessage, reason)
	default:
		c.need = turns.NeedReturn
	}
	return c
}
