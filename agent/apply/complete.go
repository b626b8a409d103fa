package apply

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/agent/plan"
	"github.com/loam-os/loam/hint"
)

// completeOrRevert completes a change. A change whose files cannot be placed is
// reverted, as Apply would have done.
func (r resumer) completeOrRevert(
	ctx context.Context, j generation.Journal, decided recovery,
) error {
	err := r.complete(ctx, j, decided)
	if j.Good == "" || decided.step == stepRevert || !errors.As(err, new(*placeError)) {
		return err
	}

	v := health.Verdict{Reason: hint.Line(err)}
	if _, revertErr := r.changes.revert(ctx, j, v); revertErr != nil {
		return errors.Join(err, revertErr)
	}
	return nil
}

// complete does again all that comes after the flip of a change, and the flip
// of a revert that was cut off before it.
func (r resumer) complete(ctx context.Context, j generation.Journal, decided recovery) error {
	want, err := r.store.Load(j.To)
	if err != nil {
		return unfinished(err)
	}

	if decided.activate {
		if err := r.activateRevert(j); err != nil {
			return unfinished(err)
		}
	}

	have, err := r.changes.candidates.load(j.From)
	if err != nil {
		return unfinished(err)
	}

	all := r.units.progressOf(j).All
	if err := r.files.placeAll(have, want, stopOf(j)); err != nil && !all {
		return unfinished(&placeError{err})
	}

	if all && decided.step == stepComplete {
		r.changes.watch(want, j, nil, nil)
		return nil
	}

	c, err := r.changes.planner.between(ctx, have, want)
	if err != nil {
		return unfinished(err)
	}

	if decided.rebooted {
		c.plan.Units = afterBoot(c)
	}

	return r.changes.finish(ctx, c, j)
}

// activateRevert flips to j.To, if a revert was cut off before its flip. If the
// node has booted since, it has booted with j.From: the journal then names this
// boot as the one in which the revert began.
func (r resumer) activateRevert(j generation.Journal) error {
	if j.BootID != r.bootID {
		j.BootID = r.bootID
		if err := r.store.WriteJournal(j); err != nil {
			return err
		}
	}
	return r.store.Activate(r.changes.osVersion, j.To)
}

// afterBoot returns the unit actions that are left in a boot that began with
// c.want. systemd has started with its /etc, so no unit runs with the old one.
// Files elsewhere may have changed only after that.
func afterBoot(c change) []plan.Action {
	late := map[string]bool{}
	for _, f := range c.plan.Files {
		late[f.Path] = !strings.HasPrefix(f.Path, "/etc/")
	}

	units := map[string]bool{}
	for _, u := range slices.Concat(c.have.Units, c.want.Units) {
		units[u.Name] = units[u.Name] ||
			slices.ContainsFunc(u.FilePaths, func(name string) bool { return late[name] })
	}

	return slices.DeleteFunc(c.plan.Units, func(a plan.Action) bool {
		return (a.Verb == plan.Restart || a.Verb == plan.Reload) && !units[a.Unit]
	})
}

// placeError is an error in placing the files of a generation.
type placeError struct{ error }

func (e *placeError) Unwrap() error { return e.error }
