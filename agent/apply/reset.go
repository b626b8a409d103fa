package apply

import (
	"context"
	"errors"
	"slices"

	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/plan"
)

// Reset takes away what generations have brought, and then them with all their
// content: the node is as one that has had none. There is no verdict to wait
// for, and no way back.
//
// It keeps no journal: cut off anywhere, it is done again from its beginning,
// before any Resume, which would mend the node. An error that is ErrUnfinished
// says that something is still there; the generations then stay, as they know
// what there is to take away. Any other is of units of the image that did not
// come up without what they were given.
func (e *Executor) Reset(ctx context.Context) error {
	ran, all, err := e.everything()
	if err != nil {
		return unfinished(err)
	}

	_, left := e.leave(ctx, ran, true) // Before its unit goes, a unit stops in its own way.
	left = errors.Join(left, e.Node.Together(func() error { return e.files().removeAll(ran[0], all) }),
		e.Units.Reload(ctx))
	down, again := e.leave(ctx, ran, false)
	left = errors.Join(left, again, ctx.Err())
	if left == nil {
		e.gate = nil
		e.last = generation.Manifest{}
		e.owed = owed{}
		left = errors.Join(e.store().Clear(), e.State.Discard(heldName), e.State.Remove(heldName),
			e.State.Remove(owedName))
	}

	return errors.Join(unfinished(left), down)
}

// everything are the generations whose units may run, the current one first and
// with it that of a change that is under way, and all that can be read.
func (e *Executor) everything() (ran, all []generation.Manifest, err error) {
	current, _, err := e.Current()
	if err != nil && !errors.Is(err, generation.ErrTorn) {
		return nil, nil, err
	}

	j, _, err := e.store().Journal()
	if err != nil {
		return nil, nil, err
	}

	names, err := e.store().List()
	if err != nil {
		return nil, nil, err
	}

	ran = []generation.Manifest{current}
	for _, name := range names {
		m, err := e.store().Load(name)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, m)
		if name == j.From && name != current.Name() {
			ran = append(ran, m)
		}
	}

	return ran, all, nil
}

// leave does with units what follows from there being no generation any more:
// of the first that ran all of it, or the stops alone; of another the stops.
// left is what could not be stopped or observed, down what could not be
// started.
func (e *Executor) leave(
	ctx context.Context, ran []generation.Manifest, stopsOnly bool,
) (down, left error) {
	for i, m := range ran {
		c, err := e.planner().between(ctx, m, generation.Manifest{})
		if err != nil {
			return down, errors.Join(left, err)
		}

		isStop := func(a plan.Action) bool { return a.Verb == plan.Stop }
		stops := slices.DeleteFunc(slices.Clone(c.plan.Units), func(a plan.Action) bool {
			return !isStop(a)
		})

		left = errors.Join(left, joined(e.units().runAlone(ctx, stops)))
		if i == 0 && !stopsOnly {
			down = joined(e.units().runAlone(ctx, slices.DeleteFunc(c.plan.Units, isStop)))
		}
	}
	return down, left
}
