package apply

import (
	"context"
	"errors"
	"fmt"

	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// rollbacks takes the node back to an earlier generation for an operator.
type rollbacks struct {
	resumer resumer
	changes changes
	running running
}

// RolledBack is the reason of a [Record] of a rollback.
const RolledBack = "rolled back by the operator"

// rollback implements [Executor.Rollback].
func (r rollbacks) rollback(ctx context.Context, name string) (generation.Manifest, error) {
	to, err := r.earlier(ctx, name)
	if err == nil && to.failed != nil {
		err = to.refusal()
	}
	if err != nil {
		return generation.Manifest{}, fmt.Errorf("roll back: %w", err)
	}

	m, err := r.changes.rollback(ctx, to.have, to.want,
		cause{reason: RolledBack, operator: true})
	if err != nil && m.Name() == "" {
		err = fmt.Errorf("roll back: %w", err)
	}

	return m, err
}

// reapply implements [Executor.Reapply].
func (r rollbacks) reapply(ctx context.Context, name string) (generation.Manifest, error) {
	to, err := r.earlier(ctx, name)
	if err == nil && to.failed == nil {
		err = hint.With(fault.With(fmt.Errorf("generation %s: it is not held", to.want.Name()),
			fault.NotHeld),
			"`loam rollback %d`", to.want.Number)
	}
	if err != nil {
		return generation.Manifest{}, fmt.Errorf("roll back: %w", err)
	}

	c, err := r.changes.planner.between(ctx, to.have, to.want)
	if err != nil {
		return generation.Manifest{}, fmt.Errorf("roll back: %w", err)
	}

	if err := r.changes.recordReplaced(to.before); err != nil {
		return generation.Manifest{}, err
	}

	j := r.changes.journal(ctx, c, to.before)
	j.Existed = true
	return r.changes.activate(ctx, c, j)
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
func (r rollbacks) earlier(ctx context.Context, name string) (target, error) {
	before, err := r.resumer.finishPending(ctx)
	if err != nil {
		return target{}, err
	}

	have, ok, err := r.running.current()
	if err != nil {
		return target{}, err
	}
	if !ok {
		return target{}, fault.With(
			errors.New("the node has no generation yet"), fault.NothingBefore,
		)
	}

	want, err := r.changes.candidates.earlier(have, name, before.Good)
	if err != nil {
		return target{}, err
	}

	to := target{have: have, want: want, before: before}
	held, isHeld, err := r.changes.ledger.Held(want.Digest)
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
