package apply

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/agent/plan"
	"github.com/loam-os/loam/hint"
)

// Resumed is what Resume has done.
type Resumed struct {
	// Finished names the generation whose apply was cut off and is now done.
	Finished string
	// Repaired are the paths that were not what the generation says.
	Repaired []string
	// Drift says which paths are not, and cannot be had.
	Drift error
	// Replacement names the generation that replaced a corrupt or lost one.
	Replacement string
}

// Resume ends a change that was cut off. The node then runs exactly the current
// generation, the one before the change or the one after it. If nothing was cut
// off and nothing has drifted, it writes nothing and does not call systemd.
func (e *Executor) Resume(ctx context.Context) (Resumed, error) {
	found, err := e.changes().observe()
	if err != nil {
		return Resumed{}, err
	}

	var r Resumed
	if found.lost() {
		r.Replacement, err = e.changes().replaceCurrent(ctx, found)
		if err != nil {
			return r, err
		}

		// The change that was cut off may have ended with it.
		found, err = e.changes().observe()
		if err != nil {
			return r, err
		}
		if found.corrupt {
			return r, fmt.Errorf("replace the current generation: %w", generation.ErrIncomplete)
		}
	}

	r.Repaired, err = e.files().removeStale(found.current)
	if err != nil {
		return r, err
	}

	recovery := decideResume(found, e.BootID)
	switch recovery.step {
	case stepComplete, stepRevert:
		r.Finished = found.journal.To
		if err := e.changes().completeOrRevert(ctx, found.journal, recovery); err != nil {
			return r, err
		}
		return r, e.store().Sweep()
	case stepAbandon:
		if err := e.changes().abandon(ctx, found, recovery); err != nil {
			return r, err
		}
	}

	repaired, err := e.files().repair(found.current, nil)
	r.Repaired = append(r.Repaired, repaired...)
	if !Transient(err) {
		r.Drift = err
		err = nil
	}

	if err == nil {
		err = e.units().reloadFor(ctx, repaired)
	}
	if err == nil {
		err = e.store().Sweep()
	}

	return r, err
}

// abandon ends a change whose generation is not current: it never was, or it
// has been taken back. It removes what the change may have placed, and the
// change itself.
func (cs changes) abandon(ctx context.Context, found situation, r recovery) error {
	j := found.journal
	to, err := cs.candidates.load(j.To)
	if err != nil {
		return err
	}

	exists := to.Name() != ""

	if exists {
		*cs.units.reload = true
		if err := cs.files.clean(to, found.current); err != nil {
			return err
		}
	}

	if exists && found.current.Name() != "" && r.rebooted {
		if err := cs.restartLate(ctx, to, found.current, j); err != nil {
			return err
		}
	}

	if err := cs.store.RemoveJournal(); err != nil {
		return err
	}
	if !exists || j.Existed {
		return nil
	}

	return cs.store.Delete(to.Name())
}

// restartLate restarts the units that have started, in this boot, with files of
// have outside of /etc. If the files of want cannot be placed, it does nothing:
// the next apply may repair them.
func (cs changes) restartLate(
	ctx context.Context, have, want generation.Manifest, j generation.Journal,
) error {
	if _, err := cs.files.repair(want, nil); err != nil {
		return nil
	}

	c, err := cs.planner.between(ctx, have, want)
	if err != nil {
		return err
	}

	late := slices.DeleteFunc(afterBoot(c), func(a plan.Action) bool {
		return a.Verb != plan.Restart && a.Verb != plan.Reload
	})

	failed, _ := cs.units.run(ctx, late, j)
	return errors.Join(joined(failed), ctx.Err())
}

// completeOrRevert completes a change. A change whose files cannot be placed is
// reverted, as Apply would have done.
func (cs changes) completeOrRevert(ctx context.Context, j generation.Journal, r recovery) error {
	err := cs.complete(ctx, j, r)
	if j.Good == "" || r.step == stepRevert || !errors.As(err, new(*placeError)) {
		return err
	}
	if _, revertErr := cs.revert(ctx, j, health.Verdict{Reason: hint.Line(err)}); revertErr != nil {
		return errors.Join(err, revertErr)
	}
	return nil
}

// complete does again all that comes after the flip of a change, and the flip
// of a revert that was cut off before it.
func (cs changes) complete(ctx context.Context, j generation.Journal, r recovery) error {
	want, err := cs.store.Load(j.To)
	if err != nil {
		return unfinished(err)
	}

	if r.activate {
		if err := cs.activateRevert(j); err != nil {
			return unfinished(err)
		}
	}

	have, err := cs.candidates.load(j.From)
	if err != nil {
		return unfinished(err)
	}

	all := cs.units.progressOf(j).All
	if err := cs.files.placeAll(have, want, stopOf(j)); err != nil && !all {
		return unfinished(&placeError{err})
	}

	if all && r.step == stepComplete {
		cs.watch(want, j, nil, nil)
		return nil
	}

	c, err := cs.planner.between(ctx, have, want)
	if err != nil {
		return unfinished(err)
	}

	if r.rebooted {
		c.plan.Units = afterBoot(c)
	}

	return cs.finish(ctx, c, j)
}

// activateRevert flips to j.To, if a revert was cut off before its flip. If the
// node has booted since, it has booted with j.From: the journal then names this
// boot as the one in which the revert began.
func (cs changes) activateRevert(j generation.Journal) error {
	if j.BootID != cs.bootID {
		j.BootID = cs.bootID
		if err := cs.store.WriteJournal(j); err != nil {
			return err
		}
	}
	return cs.store.Activate(cs.osVersion, j.To)
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

// finishPending ends a change that was cut off, so that the next one begins at
// a complete generation. If its files cannot be placed and no unit has seen it
// yet, it abandons the change, as the next one may repair the node. It returns
// the journal of a change that is complete and waits for its verdict, or the
// zero Journal.
func (cs changes) finishPending(ctx context.Context) (generation.Journal, error) {
	j, pending, err := cs.store.Journal()
	if err != nil || !pending {
		return generation.Journal{}, err
	}

	// The change is complete and only its verdict is missing: the next change
	// replaces it.
	if *cs.gate != nil {
		return j, nil
	}

	found, err := cs.observe()
	if err != nil {
		return generation.Journal{}, err
	}

	r := decideResume(found, cs.bootID)
	switch r.step {
	case stepReplace: // The next generation takes its place.
		return generation.Journal{}, nil
	case stepAbandon:
		return generation.Journal{}, unfinished(cs.abandon(ctx, found, r))
	}

	failed := cs.complete(ctx, j, r)

	// Units that did not come up are part of the next plan.
	if *cs.gate != nil {
		return j, nil
	}

	if _, still, err := cs.store.Journal(); err != nil || !still {
		return generation.Journal{}, err
	}

	started := len(cs.units.progressOf(j).Done) > 0
	if !errors.As(failed, new(*placeError)) || r.step == stepRevert || started {
		return generation.Journal{}, fmt.Errorf("complete the apply before: %w", failed)
	}

	have, err := cs.candidates.load(j.From)
	if err != nil {
		return generation.Journal{}, err
	}
	if err := cs.abandonFlipped(change{have: have, want: found.current}, j); err != nil {
		return generation.Journal{}, errors.Join(failed, err)
	}

	*cs.units.reload = true
	return generation.Journal{}, unfinished(cs.units.reloadPending(ctx))
}

// replaceCurrent replaces a corrupt or lost current generation and returns the
// name of the new one: the last that has proven itself, or else the newest that
// is not held. It returns "" if the node has no other.
func (cs changes) replaceCurrent(ctx context.Context, found situation) (string, error) {
	want, err := cs.candidates.newest(found.journal)
	if err != nil {
		return "", err
	}

	if want.Name() == "" {
		if found.corrupt {
			err = cs.store.Deactivate(cs.osVersion)
		}
		return "", err
	}

	_, err = cs.rollback(ctx, generation.Manifest{}, want, generation.Journal{},
		"the current generation was damaged")
	return want.Name(), err
}

// Repair makes the given paths what the current generation says, and returns
// the ones that were different. Paths in /var/lib/loam, which links lead
// through, are restored in the store, with content (by digest) where the store
// has lost it. An error of one path does not keep Repair from the others.
func (e *Executor) Repair(
	ctx context.Context, paths []string, content map[string]config.Content,
) ([]string, error) {
	repaired, err := e.restoreCurrent(content)
	if err != nil {
		return repaired, err
	}

	m, ok, err := e.Current()
	if err != nil || !ok {
		return repaired, err
	}

	stored, storeErr := e.files().repairStored(m, paths, content)
	placed, placeErr := e.files().repair(m, paths)
	repaired = slices.Concat(repaired, stored, placed)

	return repaired, errors.Join(storeErr, placeErr, e.units().reloadFor(ctx, repaired))
}

// restoreCurrent restores the current generation if something removed the link
// to it, or its link to its files.
func (e *Executor) restoreCurrent(content map[string]config.Content) ([]string, error) {
	_, ok, err := e.Current()
	if ok || e.last.Name() == "" || err != nil && !errors.Is(err, generation.ErrIncomplete) {
		return nil, err
	}

	repaired := path.Join("os", e.OSVersion, "current")
	if _, err := e.store().Load(e.last.Name()); errors.Is(err, generation.ErrIncomplete) {
		repaired = path.Join("generations", e.last.Name(), "root")
		err := e.store().Repair(e.last, e.files().sources(e.store().Damaged(e.last), content))
		if err != nil {
			return nil, err
		}
	}

	if err := e.store().Activate(e.OSVersion, e.last.Name()); err != nil {
		return nil, err
	}

	return []string{path.Join(generation.Dir, repaired)}, nil
}
