package turns

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"
)

// maxSystems is how many rollouts of systems a ledger keeps, beside those that
// are halted or have holders.
const maxSystems = 4

// New returns the ledger that a node creates if there is none.
func New() Ledger { return Ledger{State: Restoring}.clone() }

// Restore returns a restoring ledger with the turns and the failures that the annotations
// of the Nodes of the pool of me show, running. The fleet must have been read after the
// ledger was created. A failure in another pool, which the Node was in before, says nothing
// about this one, and its revision nothing about which is newer. A mark that no agent has
// written, as it is too long, is left out: the ledger would be too large.
func (l Ledger) Restore(p Policy, me Me, fleet Fleet) Ledger {
	type failed struct {
		node string
		Failure
	}
	var failures []failed

	l = l.clone()
	for _, n := range fleet {
		h, err := ParseHolder(n.Mark)
		for _, text := range n.Failures {
			if f, err := ParseFailure(text); err == nil && (f.Pool == "" || f.Pool == me.Pool) {
				failures = append(failures, failed{n.Name, f})
				h.Counted = h.Counted || h.Target == f.Target
			}
		}
		h.Node = n.Name
		h.Ledger = ""
		if err == nil && len(h.String()) <= largestHolder {
			l.Restored[h.Machine] = h
		}
	}

	// A configuration takes the place of older ones, whose halts stay.
	slices.SortStableFunc(failures, func(a, b failed) int { return cmp.Compare(a.Revision, b.Revision) })
	for _, f := range failures {
		l.count(p, f.node, f.Failure)
	}
	l.State = Running
	l.Nodes = me.Nodes
	l.Size = fleet.Size()
	return l
}

// toward returns the rollout to the target of me, the zero Rollout if it has none.
// A configuration takes the place of an older one, but not of a halt without a
// target.
func (l Ledger) toward(me Me) Rollout {
	switch {
	case me.isRestart():
		return Rollout{}
	case me.isSystem():
		r, ok := l.Systems[me.Target]
		if !ok {
			r.Revision = me.Revision
		}
		r.Target = me.Target
		r.Version = me.Version
		return r
	}

	if l.Target == me.Target || l.isNewer(me) || l.haltsAll() {
		r := l.Rollout
		r.Revision = max(r.Revision, me.Revision)
		return r
	}
	return Rollout{
		Target:   me.Target,
		Revision: me.Revision,
		Halted:   l.Halts[haltKey(me.Target)],
	}
}

// set makes r the rollout of the kind of me. l must be a clone.
func (l *Ledger) set(me Me, r Rollout) {
	switch {
	case me.isRestart():
		return
	case !me.isSystem():
		if l.Halted != "" && l.Target != r.Target {
			l.Halts[haltKey(l.Target)] = fmt.Sprintf("%.*s", maxHalt, l.Halted)
		}
		l.Rollout = r
		return
	}
	l.Systems[r.Target] = r
	l.prune(r.Target)
}

// prune forgets the oldest rollouts of systems, but none that is halted or has
// holders, and not the one to keep.
func (l *Ledger) prune(keep string) {
	var old []Rollout
	for target, r := range l.Systems {
		holds := func(h Holder) bool { return h.Target == target }
		if target == keep || r.Halted != "" ||
			slices.ContainsFunc(slices.Collect(maps.Values(l.Holders)), holds) {
			continue
		}
		old = append(old, r)
	}

	slices.SortFunc(old, func(a, b Rollout) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.Target, b.Target))
	})
	for _, r := range old[:max(0, len(old)-maxSystems+1)] {
		delete(l.Systems, r.Target)
	}
}

// isNewer reports whether the ledger is of a configuration that me does not know
// yet.
func (l Ledger) isNewer(me Me) bool {
	return !me.isSystem() && !me.isRestart() && l.Target != "" && l.Target != me.Target &&
		l.Revision >= me.Revision
}

// haltsAll reports whether the rollout is halted without a target. A person has
// written that: it holds for all targets, until a person resumes the rollout.
func (r Rollout) haltsAll() bool { return r.Halted != "" && r.Target == "" }

// stands reports whether no turn for the target of me may begin.
func (l Ledger) stands(me Me) bool {
	return l.State == Paused || haltOf(l, me) != ""
}

// haltOf returns why the rollout to the target of me is halted, "" if it is not. A
// restart is no step of a rollout.
func haltOf(l Ledger, me Me) string {
	if l.haltsAll() && !me.isRestart() {
		return l.Halted
	}
	r := l.toward(me)
	if r.Target != me.Target {
		return ""
	}
	return r.Halted
}

// Take returns the ledger in which me has the turn h. A system that all nodes have had
// their turn for is rolled out again: they have changed to another one since. It begins
// anew, but counts on: the admission policies let no count become less.
func (l Ledger) Take(me Me, h Holder, size int) Ledger {
	l = l.clone()
	l.Size = size
	delete(l.Restored, me.Machine)
	l.Nodes = me.Nodes

	r := l.toward(me)
	begun := begunBy(slices.Collect(maps.Values(l.Holders)), me)
	isOver := r.Done+r.Failed > 0 && r.had(size) == 0
	if isOver && begun == 0 {
		r.Begun = time.Time{}
		r.Reached = 0
	}
	r.Reached = reachedBy(r, me, size, begun)
	l.Holders[me.Machine] = h
	if r.Begun.IsZero() {
		r.Begun = h.Since.Truncate(time.Second)
	}
	l.set(me, r)
	return l
}

// had returns how many nodes of a pool of that size have had their turn. If all have had
// one for a system, the next one that changes to it begins anew: the pool has had another
// system since.
func (r Rollout) had(size int) int {
	if r.Version == "" {
		return r.Done + r.Failed
	}
	return (r.Done + r.Failed) % max(size, 1)
}

// done returns how many nodes of a pool of that size have changed, likewise.
func (r Rollout) done(size int) int { return min(r.Done, r.had(size)) }

// Drop returns the ledger without the turn id of a machine, which has not
// changed anything. Another turn of the machine stays.
func (l Ledger) Drop(machine, id string) Ledger {
	l = l.clone()
	if l.Holders[machine].ID == id {
		delete(l.Holders, machine)
	}
	if l.Restored[machine].ID == id {
		delete(l.Restored, machine)
	}
	return l
}

// Give returns the ledger after the change of me is proven.
func (l Ledger) Give(me Me, id string) Ledger {
	return l.give(me, id, func(r *Rollout) { r.Done++ })
}

// Postpone returns the ledger after me has given its turn unused.
func (l Ledger) Postpone(me Me, id string) Ledger {
	return l.give(me, id, func(r *Rollout) { r.Postponed++ })
}

// Fail returns the ledger after the change of me has failed. If that is one
// failure too many, the rollout is halted by the same write.
func (l Ledger) Fail(p Policy, me Me, id, why string) Ledger {
	counted := l.Restored[me.Machine].Counted
	return l.give(me, id, func(r *Rollout) {
		if !counted {
			r.fail(p, me.Machine, why)
		}
	})
}

// give removes the turn of me and counts it in the rollout to its target.
func (l Ledger) give(me Me, id string, count func(r *Rollout)) Ledger {
	had := l.has(me.Machine, id)
	l = l.Drop(me.Machine, id)
	r := l.toward(me)
	if had && r.Target == me.Target {
		count(&r)
	}
	l.set(me, r)
	return l
}

// fail counts a failure, and halts the rollout if that is one too many.
func (r *Rollout) fail(p Policy, machine, why string) {
	r.Failed++
	if r.Failed > p.MaxFailures && r.Halted == "" {
		r.Halted = fmt.Sprintf("%s: %s", machine, why)
	}
}

// count counts the failure that a Node remembers.
func (l *Ledger) count(p Policy, machine string, f Failure) {
	me := Me{Target: f.Target, Version: f.Version, Revision: f.Revision}
	r := l.toward(me)
	if r.Target == me.Target {
		r.fail(p, machine, f.Why)
	}
	l.set(me, r)
}

// Pause returns the ledger of a rollout that a person has paused.
func (l Ledger) Pause(why string) Ledger {
	l.State = Paused
	l.Why = why
	return l
}

// Resume returns the ledger of a pool that goes on, without a hurry. Halts of one that
// is paused stay: a person may not have seen what has failed since. If one is not, the
// next configuration of a node is that of the pool, whatever the ledger took for a newer
// one.
func (l Ledger) Resume() Ledger {
	l = l.clone()
	wasPaused := l.State == Paused
	l.State = Running
	l.Why = ""
	l.Hurry = nil
	if wasPaused {
		return l
	}
	clear(l.Halts)
	l.Rollout = l.Rollout.resumed()
	l.Revision = 0
	for target, r := range l.Systems {
		l.Systems[target] = r.resumed()
	}
	return l
}

func (r Rollout) resumed() Rollout {
	r.Halted = ""
	r.Failed = 0
	return r
}

// Retried returns the ledger of a pool in which a node tries once more what has
// failed there: that failure counts no longer. A halt by failures ends if no more nodes
// have failed than mayFail, which is below 0 if it is not known.
func Retried(l Ledger, target string, mayFail int) Ledger {
	l = l.clone()
	if l.Target == target {
		l.Rollout = l.Rollout.retried(mayFail)
	}
	if r, ok := l.Systems[target]; ok {
		l.Systems[target] = r.retried(mayFail)
	}
	return l
}

func (r Rollout) retried(mayFail int) Rollout {
	failed := max(0, r.Failed-1)
	if r.Failed > mayFail && failed <= mayFail && failureHalt.MatchString(r.Halted) {
		r.Halted = ""
	}
	r.Failed = failed
	return r
}

// failureHalt matches why a rollout is halted by a failure, as [Rollout.fail] writes it:
// it begins with the name of a machine. What a person writes holds until resume.
var failureHalt = regexp.MustCompile(`^[A-Za-z0-9._-]+: `)

// TurnOf returns the turn of a machine, false if it has none.
func TurnOf(l Ledger, machine string) (Holder, bool) {
	h, ok := l.Holders[machine]
	if !ok {
		h, ok = l.Restored[machine]
	}
	return h, ok
}

// Forget returns the ledger without the turns of a machine. Only a person knows
// that it changes nothing any more.
func (l Ledger) Forget(machine string) Ledger {
	l = l.clone()
	delete(l.Holders, machine)
	delete(l.Restored, machine)
	return l
}
