package apply

import (
	"context"
	"errors"
	"slices"

	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/plan"
)

// Reset removes what all generations have placed, and then the generations with
// their content, as if the node had never had one. There is no verdict to wait
// for, and no way back.
//
// It keeps no journal: if it is cut off, it begins again, before any Resume,
// which would repair the node. If the error is ErrUnfinished, something is
// still there; the generations then stay, as they know what to remove. Any
// other error comes from a unit of the image that did not come up without its
// configuration.
func (e *Executor) Reset(ctx context.Context) error {
	ran, all, err := e.everything()
	if err != nil {
		return unfinished(err)
	}

	_, left := e.leave(ctx, ran, true) // Before its unit goes, a unit stops in its own way.
	left = errors.Join(left,
		e.Node.Together(func() error {
			return e.files().removeAll(ran[0], all)
		}), e.Units.Reload(ctx))

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

// everything returns the generations whose units may run (the current one
// first, then the generation before a pending change), and all generations that
// can be read.
func (e *Executor) everything() (ran, all []generation.Manifest, err error) {
	current, _, err := e.Current()
	if err != nil && !errors.Is(err, generation.ErrIncomplete) {
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

// leave runs the units as if no generation came after those in ran: for the
// first all actions, or only the stops with stopsOnly; for the others only the
// stops. left has the units that could not be stopped or observed, down the
// units that could not be started.
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
