package loop

import (
	"context"
	"errors"
	"time"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/control"
)

// askRollback asks for an earlier generation.
type askRollback control.RollbackRequest

// Rollback implements [control.Agent].
func (q Requests) Rollback(
	ctx context.Context,
	r control.RollbackRequest,
) (control.Outcome, error) {
	got := q.send(ctx, askRollback(r), nil)
	return got.outcome, got.err
}

// admit takes a change on trial back, too, unless the generation is held.
func (a askRollback) admit(s State) (Step, error) {
	if !a.Held {
		return Step{Kind: Rollback, Have: s.Current.Generation}, nil
	}
	if s.Change.trying() {
		return Step{}, errTrying(s)
	}
	return Step{
		Kind:    Reapply,
		Have:    s.Current.Generation,
		Desired: s.Desired,
	}, nil
}

// Rollback goes back to an earlier generation.
var Rollback = &Kind{
	name:    "roll back",
	perform: performRollback,
	after:   afterRollback,
}

func performRollback(ctx context.Context, w worker, step Step) (r Result) {
	asked := step.Request.Ask.(askRollback)
	r.Generation, r.Err = w.engine.Rollback(ctx, asked.Generation)
	r.Node = w.observe(step)
	return r
}

func afterRollback(s State, step Step, r Result, _ time.Duration) (State, []Effect) {
	if r.changedNothing() {
		return s, append(fail(step.Request, r.Err), ObserveUnits)
	}
	if errors.Is(r.Err, apply.ErrUnfinished) {
		failed := fail(step.Request, r.Err)
		s, change := changed(s, r)
		return s, append(failed, change...)
	}

	s.Due.Read = true
	s, effects := await(s, nil)
	s, change := changed(s, r)
	effects = append(effects, change...)
	return s, append(effects, succeed(step.Request, control.Outcome{
		Result:     control.Reverted,
		Generation: r.Generation.Name(),
		From:       step.Have.Name(),
		Digest:     r.Generation.Digest,
	})...)
}

// Reapply applies an earlier generation again, although it is held.
var Reapply = &Kind{
	name:    "apply again",
	begin:   beginReapply,
	perform: performReapply,
	after:   afterReapply,
}

func beginReapply(s State, _ Step, now time.Duration) (State, []Effect) {
	s.Change.Began = now
	return s, nil
}

func performReapply(ctx context.Context, w worker, step Step) (r Result) {
	asked := step.Request.Ask.(askRollback)
	r.Generation, r.Err = w.engine.Reapply(ctx, asked.Generation)
	if !r.changedNothing() {
		r.Holds = w.holdForHeld(step, asked.Generation, r.Generation.Digest)
	}
	r.Node = w.observe(step)
	return r
}

// afterReapply takes in that a generation is applied again which was held. It
// replaces what the source says, as an operator's apply does, and the caller
// waits for the verdict.
func afterReapply(s State, step Step, r Result, _ time.Duration) (State, []Effect) {
	if r.changedNothing() {
		return s, append(fail(step.Request, r.Err), ObserveUnits)
	}

	var effects []Effect
	if r.Holds.Err != nil {
		effects = append(effects, Warn{What: "hold the source's configuration", Err: r.Holds.Err})
	}
	if !errors.Is(r.Err, apply.ErrUnfinished) {
		s.Due.Read = true
	}
	s, replaced := await(s, step.Request)
	s, change := changed(s, r)
	effects = append(effects, replaced...)
	return s, append(effects, change...)
}
