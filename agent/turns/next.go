package turns

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// Phase is how far a node is with its turn.
type Phase string

const (
	// Over means that the node has no turn.
	Over Phase = ""
	// Taking means that the turn may be in the ledger. Nothing has changed.
	Taking Phase = "taking"
	// Holding means that the node has its turn and may be changing.
	Holding Phase = "holding"
	// Returning means that the change is over, or not needed any more. The turn may be
	// in the ledger yet.
	Returning Phase = "returning"
)

// Turn is what a node keeps of its turn on its disk. It keeps the ID of its
// last turn.
type Turn struct {
	Holder Holder `json:"holder"`
	Phase  Phase  `json:"phase,omitempty"`

	// Ledger is the name of the ledger that the turn is in: a label of the Node, which
	// names the pool, may change meanwhile. It is "" if that is not known.
	Ledger string `json:"ledger,omitempty"`

	// Own is [Me.Own] when the turn began.
	Own string `json:"own,omitempty"`

	// Outcome is how the change went, for Returning.
	Outcome Outcome `json:"outcome,omitzero"`

	// Failed is the configuration that has failed, as [Turn.Changes] names it, ""
	// for none. It outlives turns for other changes.
	Failed string `json:"failed,omitempty"`

	// Retry is the configuration that has failed and that an operator lets the
	// node try once more, named likewise, "" for none.
	Retry string `json:"retry,omitempty"`

	// Postponed and PostponedSystem are the configuration and the system that were
	// postponed last.
	Postponed       Postponed `json:"postponed,omitzero"`
	PostponedSystem Postponed `json:"postponedSystem,omitzero"`
}

// Need is what a node needs of the ledger.
type Need string

const (
	// NeedNothing: there is no change that disturbs anything.
	NeedNothing Need = ""
	// NeedTurn: a change waits, or is under way.
	NeedTurn Need = "turn"
	// NeedGive: the change is proven.
	NeedGive Need = "give"
	// NeedFail: the change has failed.
	NeedFail Need = "fail"
	// NeedReturn: the change was given up, and the turn not used.
	NeedReturn Need = "return"
	// NeedPostpone: the change cannot begin, and has changed nothing.
	NeedPostpone Need = "postpone"
)

// View is what a node knows when it decides on its next step.
type View struct {
	Policy Policy
	Me     Me
	Turn   Turn

	Need Need

	// Checks says that the node, which has its turn, is drained: that took its time,
	// so it looks at the ledger once more before the change begins.
	Checks bool

	// Why is why the change failed or is postponed.
	Why string

	// Mark is the mark of the own Node, and Failure what the Node remembers of a
	// change of the kind of Me that failed; "" if absent.
	Mark, Failure string

	// Tried is what the own Node, which is a canary, has tried.
	Tried Tried

	// Seen is what was read since the last write to the API server, nil for
	// nothing.
	Seen *Seen

	// ID is the ID of the next turn.
	ID  string
	Now time.Time
}

// Kind is a kind of [Step].
type Kind string

const (
	// Nothing is left to do.
	Nothing Kind = ""
	// Await waits until Decision.Until. What was seen is old then.
	Await Kind = "await"
	// Read reads the ledger. List reads the fleet.
	Read Kind = "read"
	List Kind = "list"
	// Create creates a restoring ledger, unless there is one.
	Create Kind = "create"
	// Write writes Ledger, unless it has changed since it was read. If Save is
	// set, Turn is saved after that.
	Write Kind = "write"
	// Save writes Turn to the disk. What was seen is old if the turn was held
	// before.
	Save Kind = "save"
	// Mark sets the mark of the own Node to Turn.Holder. Unmark removes it, unless the
	// Node has changed since it was seen.
	Mark   Kind = "mark"
	Unmark Kind = "unmark"
	// Note writes Failure to the own Node: a ledger that is made again needs it.
	Note Kind = "note"
	// NoteTried writes Tried to the own Node: the others wait for it.
	NoteTried Kind = "note tried"
	// Proceed lets the node change.
	Proceed Kind = "proceed"
)

// Step is what to do next. A step that writes to the API server ends what was
// seen, whether it succeeds or not.
type Step struct {
	Kind     Kind
	Ledger   Ledger
	Turn     Turn
	Save     bool
	Failure  Failure
	Tried    Tried
	Decision Decision

	// Brief says that List need not look for canaries and pinned Nodes.
	Brief bool

	// Clears says that Unmark removes also what the Node remembers of a failure
	// of the kind of Me.
	Clears bool
}

// Next returns the next step.
func Next(v View) Step {
	v.Me.Postponed = v.Turn.postponed(v.Me.Version).isLast(v.Me.Target, v.Now)
	switch {
	case v.Turn.Phase == Returning:
		return v.giveBack()
	case v.Turn.Phase == Holding:
		return v.hold()
	case v.Me.Node == "":
		return Step{Kind: Nothing}
	case v.Turn.Phase == Taking && v.Need == NeedTurn:
		return v.take()
	case v.Turn.Phase == Taking:
		return v.abandon()
	case v.isMarked():
		return Step{Kind: Unmark}
	case v.Need == NeedTurn:
		return v.begin()
	}
	return Step{Kind: Nothing}
}

// First returns the next step of a node that may need turns for several changes,
// and the view that it is for: the first that does not only wait, or else the
// one that is first to look again. There is at least one view.
func First(views []View) (View, Step) {
	first := views[0]
	step := Next(first)
	for _, v := range views[1:] {
		if step.Kind != Await {
			break
		}
		other := Next(v)
		if other.Kind != Await || other.Decision.Until.Before(step.Decision.Until) {
			first = v
			step = other
		}
	}
	return first, step
}

// isMarked reports whether the Node has the mark of the last turn.
func (v View) isMarked() bool {
	return v.Turn.Holder.ID != "" && marked(v.Mark) == v.Turn.Holder.ID
}

// ledger returns the step that reads the ledger or makes it usable, false if it
// is.
func (v View) ledger() (Step, bool) {
	switch {
	case v.Seen == nil:
		return Step{Kind: Read}, true
	case v.Seen.Ledger == nil && v.Me.Unchanged < time.Second:
		return v.await(wait(v.Now.Add(v.Me.createPause()), "the pool has no ledger yet")), true
	case v.Seen.Ledger == nil:
		return Step{Kind: Create}, true
	case v.Seen.Ledger.State != Restoring:
		return Step{}, false
	case !v.Seen.Listed && !v.Me.mayRestore():
		return v.await(wait(v.Now.Add(v.Me.restorePause()), restoring)), true
	case !v.Seen.Listed:
		return Step{Kind: List}, true
	}
	return Step{Kind: Write, Ledger: v.Seen.Ledger.Restore(v.Policy, v.Me, v.Seen.Fleet)}, true
}

// begin decides whether to take a turn.
func (v View) begin() Step {
	if p := v.Turn.postponed(v.Me.Version); p.holds(v.Me.Target, v.Now) {
		return v.await(wait(p.Until, "postponed: "+p.Why))
	}
	if s, ok := v.ledger(); ok {
		return s
	}
	if id := v.Turn.Holder.ID; v.Seen.Ledger.has(v.Me.Machine, id) {
		return Step{Kind: Write, Ledger: v.Seen.Ledger.Drop(v.Me.Machine, id)}
	}
	if h, ok := v.forgotten(); ok {
		return Step{Kind: Write, Ledger: v.Seen.Ledger.Drop(v.Me.Machine, h.ID)}
	}

	s, ok := v.decide()
	if !ok {
		return s
	}

	turn := v.Turn.in(Taking)
	turn.Own = v.Me.Own
	turn.Holder = Holder{
		ID:      v.ID,
		Machine: v.Me.Machine,
		Node:    v.Me.Node,
		UID:     v.Me.UID,
		Target:  v.Me.Target,
		Version: v.Me.Version,
		Class:   v.Me.Class,
		Zone:    v.Me.Zone,
		Rack:    v.Me.Rack,
		Since:   v.Now,
	}
	return Step{Kind: Save, Turn: turn}
}

// forgotten returns the turn of a machine that had the name of this one, false if there
// is none. To delete a Node takes its turn away; it would count again with the Node of the
// machine that was installed since. A machine that lives has marked that Node, too.
func (v View) forgotten() (Holder, bool) {
	h, ok := v.Seen.Ledger.Holders[v.Me.Machine]
	isOfAnother := h.UID != "" && h.UID != v.Me.UID
	return h, ok && h.Node == v.Me.Node && isOfAnother && marked(v.Mark) != h.ID
}

// take takes the turn. The node may change once its Node is marked and the
// ledger that is read after that still has the turn. A Node that was deleted
// takes another turn once it is back: its turn did not count meanwhile. So does
// a node whose target or class has changed since. A node may wait for long before
// it can write its turn, which begins with that.
func (v View) take() Step {
	h := v.Turn.Holder
	if h.UID != v.Me.UID || h.Target != v.Me.Target || h.Class != v.Me.Class ||
		v.Turn.Own != v.Me.Own {
		return v.abandon()
	}
	if v.Seen != nil && v.Seen.Ledger == nil && v.isMarked() {
		return Step{Kind: Unmark}
	}
	if s, ok := v.ledger(); ok {
		return s
	}

	written := v.Seen.Ledger.Holders[v.Me.Machine]
	has := written.ID == h.ID
	turn := v.Turn
	if has {
		turn.Holder.Since = written.Since
	}
	switch {
	case v.Seen.Ledger.stands(v.Me):
		return v.abandon()
	case has && v.isMarked():
		return Step{Kind: Save, Turn: turn.in(Holding)}
	case has:
		return Step{Kind: Mark, Turn: turn}
	case v.isMarked():
		return Step{Kind: Unmark} // Another ledger took the place of the one with the turn.
	}

	s, ok := v.decide()
	if !ok {
		return s
	}
	h.Since = v.Now
	l := v.Seen.Ledger.Take(v.Me, h, v.Seen.Fleet.Size())
	if !v.Seen.Brief {
		l = looked(l, v.Me, v.Seen.Fleet)
	}
	return Step{Kind: Write, Ledger: l}
}

// abandon ends a turn that is not needed any more, for good: whether its mark is
// removed or not is not known until a request has its answer.
func (v View) abandon() Step {
	turn := v.Turn.in(Returning)
	turn.Outcome = Outcome{How: NeedReturn}
	return Step{Kind: Save, Turn: turn}
}

// hold lets the node change until the change is over. That is on the disk before
// anything else is done about it: from there on, the turn is good for no change,
// whether the ledger has it or not.
func (v View) hold() Step {
	switch v.Need {
	case NeedGive, NeedFail, NeedPostpone:
		return Step{Kind: Save, Turn: v.returning()}
	case NeedReturn:
		return v.abandon()
	}

	if v.Me.Node != "" && !v.isMarked() {
		return Step{Kind: Mark, Turn: v.Turn}
	}
	if v.Checks {
		return v.check()
	}
	return Step{Kind: Proceed}
}

// check gives the turn unused if the rollout was paused or halted since it began, if
// an operator has pinned the Node or forgotten the turn.
func (v View) check() Step {
	if s, ok := v.ledger(); ok {
		return s
	}
	l := v.Seen.Ledger
	if v.Me.Pinned != "" || l.stands(v.Me) || !l.has(v.Me.Machine, v.Turn.Holder.ID) {
		return v.abandon()
	}
	return Step{Kind: Proceed}
}

// Again returns the turn of a node that is to try once more the configuration
// that has failed.
func (t Turn) Again() Turn {
	t.Retry = t.Failed
	t.Failed = ""
	return t
}

// Changes returns what the node itself changes to: for a configuration, with the values
// that only this node has.
func (t Turn) Changes() string { return cmp.Or(t.Own, t.Holder.Target) }

// in returns t in another phase.
func (t Turn) in(p Phase) Turn {
	t.Phase = p
	return t
}

// decide returns true if the node may take a turn, or else the step that comes
// before. The fleet is listed only if the ledger does not speak against it.
func (v View) decide() (Step, bool) {
	l := *v.Seen.Ledger
	if h, ok := l.Holders[v.Me.Machine]; ok {
		return v.await(stop(v.Now, stoppedByTwin, twin(h))), false
	}

	p := v.Policy.hurried(l, v.Now)
	d := mayBegin(p, l, v.Me, v.Now)
	if d.Verdict == Take && l.Size > 0 && !v.Seen.Listed {
		d = mayList(p, l, v.Me, v.Now)
	}
	if d.Verdict != Take {
		return v.await(d), false
	}
	mayBeBrief := isUnlabelled(l, v.Me)
	if !v.Seen.Listed || (v.Seen.Brief && !mayBeBrief) {
		return Step{Kind: List, Brief: mayBeBrief}, false
	}

	own := slices.IndexFunc(v.Seen.Fleet, func(n Node) bool { return n.Name == v.Me.Node })
	if own < 0 {
		return v.await(stop(v.Now, stoppedBySelector,
			"the policy selects other Nodes than this one")), false
	}
	if h, err := ParseHolder(v.Seen.Fleet[own].Mark); err == nil {
		return v.await(stop(v.Now, stoppedByTwin, twin(h))), false
	}
	d = Decide(p, l, v.Me, v.Seen.Fleet, v.Now)
	if d.Verdict == Take && !HasRoom(l) {
		d = wait(v.Now.Add(pause(v.Me, l.Size)), fmt.Sprintf(
			"the ledger of the pool is full: %d nodes have a turn", len(l.Holders)+len(l.Restored)))
	}
	return v.await(d), d.Verdict == Take
}

// createPause returns how long me waits before it creates the first ledger of its pool.
// All nodes begin to ask at the same time, of which one should.
func (me Me) createPause() time.Duration {
	return restorePause + time.Duration(position(me)*float64(createSpread))
}

// restorePause returns how long me waits before it looks again at a ledger that another
// node restores: the longer that takes, the more the API server has to do.
func (me Me) restorePause() time.Duration {
	return min(restorePause+me.Unchanged, 2*patience)
}

// mayRestore reports whether me may list the Nodes to restore a ledger: the node that
// has created it, or, if that has died, ever more of the others. All Nodes with their
// metadata are much to send to each node of a large pool.
func (me Me) mayRestore() bool {
	if me.Created {
		return true
	}
	waited := int(me.Unchanged / patience)
	return waited > 0 && position(me) <= math.Ldexp(1, min(waited, 10)-7)
}

// twin says that this machine has a turn that it does not know: of a clone, or
// from before its disk was formatted.
func twin(h Holder) string {
	return fmt.Sprintf("another machine with the name %s has taken a turn", h.Machine)
}

func (v View) await(d Decision) Step { return Step{Kind: Await, Decision: d} }
