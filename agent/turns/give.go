package turns

import (
	"cmp"
	"slices"
	"time"
)

// Outcome is how the change of a turn went. The zero Outcome is of a turn that is
// not counted.
type Outcome struct {
	// How is [NeedGive], [NeedFail], [NeedPostpone] or [NeedReturn].
	How Need `json:"how"`

	// Own is [Me.Own] of what the node has changed to.
	Own string `json:"own,omitempty"`

	// Failure is what the node has changed to, and why that has failed or is
	// postponed.
	Failure
}

// returning returns the turn with the outcome of its change.
func (v View) returning() Turn {
	t := v.Turn.in(Returning)
	t.Outcome = Outcome{v.Need, v.Me.Own, Failure{
		Pool:     v.Me.Pool,
		Target:   v.Me.Target,
		Version:  v.Me.Version,
		Revision: v.Me.Revision,
		Why:      v.Why,
	}}
	if v.Need == NeedPostpone {
		p := t.postponed(v.Me.Version)
		*p = p.next(v.Me.Target, v.Why, v.Now)
	}
	return t
}

// giveBack gives the turn with the outcome of its change, whatever the node is to
// change to by now. What failed is on the Node before it is in the ledger, so a
// ledger that is deleted at any time halts again. If there is no Node, its turn
// does not wait for one, but what failed does.
//
// The ledger is read once more without the mark: another node may have made it again
// meanwhile, by the mark, and only this one may remove what was restored.
func (v View) giveBack() Step {
	o := v.Turn.Outcome
	v.Me.Target = o.Target
	v.Me.Version = o.Version
	v.Me.Revision = o.Revision

	if o.How == NeedReturn {
		return v.drop()
	}
	if o.How == NeedFail && v.Me.Node != "" && v.Failure != o.Failure.String() {
		return Step{Kind: Note, Failure: o.Failure}
	}
	if s, ok := v.tried(); ok {
		return s
	}
	if s, ok := v.ledger(); ok {
		return s
	}

	switch {
	case v.Seen.Ledger.has(v.Me.Machine, v.Turn.Holder.ID):
		return Step{Kind: Write, Ledger: v.given()}
	case v.isMarked():
		return Step{Kind: Unmark, Clears: o.How == NeedGive && !v.Me.isRestart()}
	case o.How == NeedFail && v.Me.Node == "":
		return v.await(wait(v.Now.Add(time.Minute), "its Node is to remember what failed"))
	}
	return Step{Kind: Save, Turn: v.Turn.over()}
}

// drop gives a turn that was not used. It writes the ledger in any case, so an earlier
// write that is still on its way fails.
func (v View) drop() Step {
	if v.isMarked() {
		return Step{Kind: Unmark}
	}
	if s, ok := v.ledger(); ok {
		return s
	}
	return Step{
		Kind:   Write,
		Ledger: v.Seen.Ledger.Drop(v.Me.Machine, v.Turn.Holder.ID),
		Turn:   v.Turn.over(),
		Save:   true,
	}
}

// tried returns the step by which a canary notes that it has had its turn, false
// if nothing is left to note. The other nodes wait until it has given its turn,
// and the note is on its Node before that, so they never wait for it again.
func (v View) tried() (Step, bool) {
	if !v.Me.Canary || v.Me.Node == "" || v.Me.isRestart() ||
		slices.Contains(v.Tried.Targets, v.Me.Target) {
		return Step{}, false
	}
	return Step{Kind: NoteTried, Tried: v.Tried.With(v.Me.Target)}, true
}

// given returns the ledger without the turn, by how the change went.
func (v View) given() Ledger {
	l := *v.Seen.Ledger
	id := v.Turn.Holder.ID
	switch v.Turn.Outcome.How {
	case NeedGive:
		return l.Give(v.Me, id)
	case NeedFail:
		return l.Fail(v.Policy, v.Me, id, v.Turn.Outcome.Why)
	case NeedPostpone:
		return l.Postpone(v.Me, id)
	}
	return l.Drop(v.Me.Machine, id)
}

// over returns the turn after it was given. With the change, its postponement is
// over. An upgrade keeps its own record of what has failed.
func (t Turn) over() Turn {
	o := t.Outcome
	t = t.in(Over)
	t.Outcome = Outcome{}
	if o.How != NeedGive && o.How != NeedFail {
		return t
	}

	if p := t.postponed(o.Version); p.Target == o.Target {
		*p = Postponed{}
	}
	isConfiguration := o.Target != "" && o.Version == ""
	switch {
	case isConfiguration && o.How == NeedFail:
		t.Failed = cmp.Or(o.Own, o.Target)
	case isConfiguration:
		t.Failed = ""
	}
	return t
}
