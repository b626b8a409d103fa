package apply

import (
	"context"
	"errors"
	"slices"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/plan"
)

// removal removes the configuration of a node, with all that was placed for it.
type removal struct {
	node    *durable.Dir
	state   *durable.Dir
	store   *generation.Store
	running running
	planner Planner
	files   files
	units   units
}

// removeAll implements [Executor.Reset]. gone reports whether the node has no
// generation left.
func (r removal) removeAll(ctx context.Context) (gone bool, err error) {
	ran, all, err := r.everything()
	if err != nil {
		return false, unfinished(err)
	}

	// Before its unit goes, a unit stops in its own way.
	_, left := r.leave(ctx, ran, true)
	removed := r.node.Together(func() error { return r.files.removeAll(ran[0], all) })
	left = errors.Join(left, removed, r.units.systemd.Reload(ctx))

	down, again := r.leave(ctx, ran, false)
	left = errors.Join(left, again, ctx.Err())
	if left != nil {
		return false, errors.Join(unfinished(left), down)
	}

	left = errors.Join(
		r.store.Clear(),
		r.state.Discard(heldName),
		r.state.Remove(heldName),
		r.state.Remove(owedName),
	)
	return true, errors.Join(unfinished(left), down)
}

// everything returns the generations whose units may run (the current one
// first, then the generation before a pending change), and all generations that
// can be read.
func (r removal) everything() (ran, all []generation.Manifest, err error) {
	current, _, err := r.running.current()
	if err != nil && !errors.Is(err, generation.ErrIncomplete) {
		return nil, nil, err
	}

	j, _, err := r.store.Journal()
	if err != nil {
		return nil, nil, err
	}

	names, err := r.store.List()
	if err != nil {
		return nil, nil, err
	}

	ran = []generation.Manifest{current}
	for _, name := range names {
		m, err := r.store.Load(name)
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
func (r removal) leave(
	ctx context.Context, ran []generation.Manifest, stopsOnly bool,
) (down, left error) {
	for i, m := range ran {
		c, err := r.planner.between(ctx, m, generation.Manifest{})
		if err != nil {
			return down, errors.Join(left, err)
		}

		isStop := func(a plan.Action) bool { return a.Verb == plan.Stop }
		stops := slices.DeleteFunc(slices.Clone(c.plan.Units), func(a plan.Action) bool {
			return !isStop(a)
		})

		left = errors.Join(left, joined(r.units.runAlone(ctx, stops)))
		if i == 0 && !stopsOnly {
			down = joined(r.units.runAlone(ctx, slices.DeleteFunc(c.plan.Units, isStop)))
		}
	}
	return down, left
}
