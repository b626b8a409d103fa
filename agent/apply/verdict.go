package apply

import (
	"context"
	"errors"
	"fmt"

	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// Pending is a change that has not proven itself, or is not confirmed.
type Pending struct {
	generation.Journal
	// Watched is set when the change is complete and only its verdict is
	// missing.
	Watched bool
}

// Pending returns the change that is under way; false if there is none.
func (e *Executor) Pending() (Pending, bool, error) {
	j, ok, err := e.store().Journal()
	return Pending{j, e.gate != nil}, ok, err
}

// Judge observes the units of the watched change. Conclude carries out the
// verdict. If no change is watched, the verdict is zero.
func (e *Executor) Judge(ctx context.Context) (health.Verdict, error) {
	if e.gate == nil {
		return health.Verdict{}, nil
	}

	var names []string
	for _, u := range e.gate.Want.Units {
		if !generation.IsTemplate(u.Name) {
			names = append(names, u.Name)
		}
	}

	states, err := e.Units.Show(ctx, names)
	if err != nil {
		return health.Verdict{}, fmt.Errorf("observe units: %w", err)
	}

	v := e.gate.Judge(states, e.Uptime())
	j, _, err := e.store().Journal()
	if err != nil || j.Try == nil || v.Word == health.Bad {
		return v, err
	}

	return e.judgeTry(j, v), nil
}

// judgeTry returns the verdict on a change that is not confirmed yet.
func (e *Executor) judgeTry(j generation.Journal, v health.Verdict) health.Verdict {
	try := *j.Try
	if e.Uptime() >= try.Deadline || j.BootID != e.BootID {
		return health.Verdict{Word: health.Bad, Reason: "it was not confirmed in time"}
	}

	if v.Word == health.Good {
		return health.Verdict{
			Word:   health.Confirm,
			Reason: "it is well and waits to be confirmed",
			Next:   try.Deadline,
		}
	}

	v.Next = min(v.Next, try.Deadline)
	return v
}

// Conclude carries out a verdict: a good change stays, and a bad one is reverted.
// It returns the generation that the node then runs.
func (e *Executor) Conclude(ctx context.Context, v health.Verdict) (generation.Manifest, error) {
	j, ok, err := e.store().Journal()
	if err != nil || !ok {
		return generation.Manifest{}, err
	}

	switch v.Word {
	case health.Good:
		return e.changes().accept(j, v.Reason)
	case health.Bad:
		m, err := e.changes().revert(ctx, j, v)
		if err != nil {
			return m, err
		}
		return m, unfinished(e.changes().prune())
	}

	return generation.Manifest{}, fault.With(fmt.Errorf("conclude generation %s: no verdict", j.To),
		fault.NothingOnTrial)
}

// ErrNothingToConfirm means that no change waits to be confirmed.
var ErrNothingToConfirm = errors.New("no change waits to be confirmed")

// Confirm ends the trial of a change, so that it stays. Its units are still
// watched until all of them have been well for long enough.
func (e *Executor) Confirm() (generation.Manifest, error) {
	j, ok, err := e.store().Journal()
	if err != nil {
		return generation.Manifest{}, err
	}
	if !ok || j.Try == nil {
		return generation.Manifest{}, ErrNothingToConfirm
	}

	j.Try = nil
	if err := e.store().WriteJournal(j); err != nil {
		return generation.Manifest{}, err
	}

	return e.store().Load(j.To)
}

// Rollback goes back, for an operator, to an earlier generation of the running
// OS version, or to the one before if name is "". The configuration that the
// node leaves is held. A generation that is held because it failed is refused:
// see [Executor.Reapply].
func (e *Executor) Rollback(ctx context.Context, name string) (generation.Manifest, error) {
	to, err := e.earlier(ctx, name)
	if err == nil && to.failed != nil {
		err = to.refusal()
	}
	if err != nil {
		return generation.Manifest{}, fmt.Errorf("roll back: %w", err)
	}

	m, err := e.changes().rollback(ctx, to.have, to.want, generation.Journal{Operator: true},
		"rolled back by the operator")
	if err != nil && m.Name() == "" {
		err = fmt.Errorf("roll back: %w", err)
	}

	return m, err
}

// Reapply makes an earlier generation of the running OS version the current one
// although it is held because it failed. Unlike after a rollback, it is watched
// and reverted if it is bad. Once it has proven itself, it is no longer held.
func (e *Executor) Reapply(ctx context.Context, name string) (generation.Manifest, error) {
	to, err := e.earlier(ctx, name)
	if err == nil && to.failed == nil {
		err = hint.With(fault.With(fmt.Errorf("generation %s: it is not held", to.want.Name()),
			fault.NotHeld),
			"`loam rollback %d`", to.want.Number)
	}
	if err != nil {
		return generation.Manifest{}, fmt.Errorf("roll back: %w", err)
	}

	c, err := e.planner().between(ctx, to.have, to.want)
	if err != nil {
		return generation.Manifest{}, fmt.Errorf("roll back: %w", err)
	}

	if to.before.To != "" {
		if err := e.changes().record(to.before, Replaced, ""); err != nil {
			return generation.Manifest{}, err
		}
	}
	j := e.changes().journal(c, to.before)
	j.Existed = true
	return e.changes().activate(ctx, c, j)
}

// target is the generation that an operator goes back to.
type target struct {
	have, want generation.Manifest
	// before is the journal of the change to have if that has no verdict yet.
	before generation.Journal
	// failed is set if want is held because it failed.
	failed *Held
}

// earlier finds the generation of that name or number, or the one before the
// current if name is "". It first completes a change that was cut off.
func (e *Executor) earlier(ctx context.Context, name string) (target, error) {
	before, err := e.changes().finishPending(ctx)
	if err != nil {
		return target{}, err
	}

	have, ok, err := e.Current()
	if err != nil {
		return target{}, err
	}
	if !ok {
		return target{}, fault.With(errors.New("the node has no generation yet"),
			fault.NothingBefore)
	}

	want, err := e.changes().candidates.earlier(have, name, before.Good)
	if err != nil {
		return target{}, err
	}

	to := target{have: have, want: want, before: before}
	held, isHeld, err := e.ledger().Held(want.Digest)
	if isHeld && !held.Operator {
		to.failed = &held
	}
	return to, err
}

// refusal is the error of a rollback to a generation that has failed.
func (t target) refusal() error {
	return hint.With(
		fault.With(fmt.Errorf("generation %s is held: %s", t.want.Name(), t.failed.Why),
			fault.Held),
		"`loam rollback %d --held` tries it again, and takes it back if the node is worse",
		t.want.Number,
	)
}
