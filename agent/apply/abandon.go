package apply

import (
	"context"
	"errors"
	"slices"

	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/plan"
)

// abandon ends a change whose generation is not current: it never was, or it
// has been taken back. It removes what the change may have placed, and the
// change itself.
func (r resumer) abandon(ctx context.Context, found situation, decided recovery) error {
	j := found.journal
	to, err := r.changes.candidates.load(j.To)
	if err != nil {
		return err
	}

	exists := to.Name() != ""

	if exists {
		*r.units.reload = true
		if err := r.files.clean(to, found.current); err != nil {
			return err
		}
	}

	if exists && found.current.Name() != "" && decided.rebooted {
		if err := r.restartLate(ctx, to, found.current, j); err != nil {
			return err
		}
	}

	if err := r.store.RemoveJournal(); err != nil {
		return err
	}
	if !exists {
		return nil
	}

	return r.changes.discard(j)
}

// restartLate restarts the units that have started, in this boot, with files of
// have outside of /etc. If the files of want cannot be placed, it does nothing:
// the next apply may repair them.
func (r resumer) restartLate(
	ctx context.Context, have, want generation.Manifest, j generation.Journal,
) error {
	if _, err := r.files.repair(want, nil); err != nil {
		return nil
	}

	c, err := r.changes.planner.between(ctx, have, want)
	if err != nil {
		return err
	}

	late := slices.DeleteFunc(afterBoot(c), func(a plan.Action) bool {
		return a.Verb != plan.Restart && a.Verb != plan.Reload
	})

	failed, _ := r.units.run(ctx, late, j)
	return errors.Join(joined(failed), ctx.Err())
}
