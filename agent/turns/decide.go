package turns

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Me is the node that decides.
type Me struct {
	Pool, Machine string

	// Nodes is the label selector of the pool, "" for all Nodes.
	Nodes string

	// Node and UID are the name and the UID of its Node, "" if it has none.
	Node, UID, Zone, Rack string

	// ControlPlane says that its Node has the role of a control plane.
	ControlPlane bool

	// Target is what it changes to: the digest of a configuration, or
	// [SystemTarget]; "" if it only restarts something, which is no rollout.
	// Version is the version of a system, "" for a configuration. Revision orders
	// targets of a kind, and Class is what the change disturbs.
	Target, Version string
	Revision        uint64
	Class           Class

	// Own is the digest of the configuration with the values that only this node
	// has, which is Target if it has none, and "" of anything else.
	Own string

	// Canary is a node that goes first, Postponed one whose change was postponed:
	// it goes last. Pinned is why an operator keeps the node from changing, ""
	// if none does.
	Canary    bool
	Postponed bool
	Pinned    string

	// Unchanged is for how long the node has seen the ledger as it is.
	Unchanged time.Duration
	// Listed is how long ago the node listed the Nodes of the pool or, if it has not
	// since, began to ask for its turn.
	Listed time.Duration
	// Glance is what that list has shown, nil if there was none.
	Glance *Glance
	// Created says that the node has created the ledger that it sees.
	Created bool
}

// isSystem reports whether me changes to another system.
func (me Me) isSystem() bool { return me.Version != "" }

// isRestart reports whether me changes to nothing else.
func (me Me) isRestart() bool { return me.Target == "" }

// controlPlanes returns how many control planes may be away for me to begin. Of
// those, one may be at a time, whatever the policy says: etcd has to keep its
// majority.
func (me Me) controlPlanes() int {
	if me.ControlPlane {
		return 1
	}
	return math.MaxInt
}

// Verdict is a kind of [Decision].
type Verdict string

const (
	// Take says that the node may take a turn now.
	Take Verdict = "take"
	// Wait says that others come first, or that no window is open.
	Wait Verdict = "wait"
	// Stop says that no node may begin before a person, another configuration
	// or an overdue node changes that.
	Stop Verdict = "stop"
)

// Decision is whether a node may take a turn.
type Decision struct {
	Verdict Verdict

	// Why says what it waits for. Until is when to decide again, roughly, and Opens that
	// a window opens then, which is not to be missed.
	Why   string
	Until time.Time
	Opens bool

	// Stopped is why the verdict is Stop, in a word: one of [StopReasons].
	Stopped string
}

// restoring is what nodes wait for that do not restore the ledger themselves.
const restoring = "the ledger is being restored"

// Reasons for a verdict of Stop.
const (
	stoppedByPause    = "paused"
	stoppedByHalt     = halted
	stoppedByOverdue  = "overdue"
	stoppedByPin      = "pinned"
	stoppedByTwin     = "twin"
	stoppedBySelector = "unselected"
)

// StopReasons are the values of [Decision.Stopped]: the rollout is paused or
// halted, a node has its turn for too long, the own Node is pinned, another machine
// has its name, or the policy selects other Nodes.
func StopReasons() []string {
	return []string{
		stoppedByHalt,
		stoppedByOverdue,
		stoppedByPause,
		stoppedByPin,
		stoppedByTwin,
		stoppedBySelector,
	}
}

const (
	// pollStopped is how often a node looks at a rollout that has stopped.
	pollStopped = 30 * time.Second

	// longestRest is the longest pause between two looks at the ledger. A
	// postponed node that sees no write for so long is behind no other node.
	longestRest = 10 * time.Minute

	// restorePause is between the first two looks at a ledger that another node restores.
	restorePause = 2 * time.Second
	// createSpread is the time within which the nodes of a pool that has no ledger
	// create one.
	createSpread = 4 * time.Second

	// pollShare is the pause that each node adds between two looks at the
	// ledger.
	pollShare = 100 * time.Millisecond
)

// Decide returns whether me may take a turn for its target. fleet must have
// been read after l, and l be written back only if it has not changed since.
func Decide(p Policy, l Ledger, me Me, fleet Fleet, now time.Time) Decision {
	p = p.hurried(l, now)
	if d := mayBegin(p, l, me, now); d.Verdict != Take {
		return d
	}

	r := l.toward(me)
	turns := fleet.turns(l)
	if d := inBounds(p, r, turns, now); d.Verdict != Take {
		return d
	}

	if first := fleet.first(p, turns, me, now); first != "" {
		return wait(now.Add(pause(me, fleet.Size())), "canary "+first+" comes first")
	}

	size := fleet.Size()
	used := fleet.away(turns, me)
	if full := fleet.glance(me).full(p, me, size, used); full != "" {
		return wait(now.Add(pause(me, size)), full)
	}

	if me.isRestart() {
		return Decision{Verdict: Take}
	}

	if d := inChunk(p, l, turns, me, size, now); d.Verdict != Take {
		return d
	}
	free := p.MayBeAway(size) - used.total
	return inOrder(r, me, size, begunBy(turns, me), free, now)
}

// inBounds returns Take unless more nodes have failed, or have one of the turns for too
// long, than the policy allows.
func inBounds(p Policy, r Rollout, turns []Holder, now time.Time) Decision {
	late := overdue(p, turns, now)
	if r.Failed+len(late) <= p.MaxFailures {
		return Decision{Verdict: Take}
	}

	reason := stoppedByHalt
	if len(late) > 0 {
		reason = stoppedByOverdue
	}
	return stop(now, reason, fmt.Sprintf("%d nodes have failed, and %d have their turn for too long: %s",
		r.Failed, len(late), strings.Join(late[:min(3, len(late))], ", ")))
}

// inChunk returns Take unless as many nodes as the policy allows so far have begun.
func inChunk(p Policy, l Ledger, turns []Holder, me Me, size int, now time.Time) Decision {
	done := l.toward(me).done(size)
	if most := p.chunk(done, size); done+begunBy(turns, me) >= most {
		return wait(now.Add(pause(me, size)), fmt.Sprintf("the first %d nodes are not done", most))
	}
	return Decision{Verdict: Take}
}

// begunBy returns how many turns are for the target of me.
func begunBy(turns []Holder, me Me) int {
	n := 0
	for _, h := range turns {
		if h.Target == me.Target {
			n++
		}
	}
	return n
}

// mayBegin returns Take unless the rollout stands still for this node.
func mayBegin(p Policy, l Ledger, me Me, now time.Time) Decision {
	opens := p.Opens(now)
	switch {
	case me.Pinned != "":
		return stop(now, stoppedByPin, "the Node is pinned: "+me.Pinned)
	case l.State == Restoring:
		return wait(now.Add(me.restorePause()), restoring)
	case l.State == Paused:
		return stop(now, stoppedByPause, "the rollout is paused: "+l.Why)
	case l.isNewer(me):
		return wait(now.Add(pause(me, l.Size)), "the pool has a newer configuration")
	case l.stands(me):
		return stop(now, stoppedByHalt, "the rollout is halted: "+haltOf(l, me))
	case opens.After(now):
		d := wait(opens, "the maintenance window opens "+opens.UTC().Format(time.RFC3339))
		d.Opens = opens.Sub(now) <= longestRest
		if !d.Opens {
			d.Until = now.Add(longestRest / 2) // A person may let some begin before.
		}
		return d
	}
	return Decision{Verdict: Take}
}

// pause returns how long a node of a pool of that size waits before it looks at
// the ledger again.
func pause(me Me, size int) time.Duration {
	return min(max(time.Duration(size)*pollShare, time.Second), poll[me.Class])
}

// listPause returns how long a node of a pool of that size does not list the Nodes
// again while all turns are taken. The larger the pool, the more others do.
func listPause(size int) time.Duration {
	return min(max(10*time.Second, time.Duration(size)*time.Second), 5*time.Minute)
}

func stop(now time.Time, reason, why string) Decision {
	return Decision{
		Verdict: Stop,
		Why:     why,
		Until:   now.Add(pollStopped),
		Stopped: reason,
	}
}

func wait(until time.Time, why string) Decision {
	return Decision{Verdict: Wait, Why: why, Until: until}
}

// overdue returns the machines that have their turn for too long. They keep it.
func overdue(p Policy, turns []Holder, now time.Time) []string {
	var late []string
	for _, h := range turns {
		if now.Sub(h.Since) > p.Overdue[h.Class] {
			late = append(late, h.Machine)
		}
	}
	slices.Sort(late)
	return late
}
