package apply

import (
	"context"
	"errors"
	"fmt"

	"github.com/loam-os/loam/agent/generation"
)

// Resumed is what Resume has done.
type Resumed struct {
	// Finished names the generation whose apply was cut off and is now done.
	Finished string
	// Repaired are the paths that differed from the generation.
	Repaired []string
	// Drift says which paths could not be repaired.
	Drift error
	// Replacement names the generation that replaced a corrupt or lost one.
	Replacement string
}

// resumer ends a change that was cut off, as decideResume says.
type resumer struct {
	changes changes
	running running
	store   *generation.Store
	files   files
	units   units
	bootID  string
}

// resume implements [Executor.Resume].
func (r resumer) resume(ctx context.Context) (Resumed, error) {
	found, replacement, err := r.observeCurrent(ctx)
	done := Resumed{Replacement: replacement}
	if err != nil {
		return done, err
	}

	done.Repaired, err = r.files.removeStale(found.current)
	if err != nil {
		return done, err
	}

	decided := decideResume(found, r.bootID)
	switch decided.step {
	case stepComplete, stepRevert:
		done.Finished = found.journal.To
		if err := r.completeOrRevert(ctx, found.journal, decided); err != nil {
			return done, err
		}
		return done, r.store.Sweep()
	case stepAbandon:
		if err := r.abandon(ctx, found, decided); err != nil {
			return done, err
		}
	}

	repaired, err := r.files.repair(found.current, nil)
	done.Repaired = append(done.Repaired, repaired...)
	if Transient(err) {
		return done, err
	}
	done.Drift = err

	if err := r.units.reloadFor(ctx, repaired); err != nil {
		return done, err
	}
	return done, r.store.Sweep()
}

// observeCurrent returns what is on disk once the node has a current generation
// that can be read. replacement names the generation that replaced a corrupt or
// lost one, "" if nothing had to be replaced.
func (r resumer) observeCurrent(
	ctx context.Context,
) (found situation, replacement string, err error) {
	found, err = r.observe()
	if err != nil || !found.lost() {
		return found, "", err
	}

	replacement, err = r.replaceCurrent(ctx, found)
	if err != nil {
		return found, replacement, err
	}

	// The change that was cut off may have ended with it.
	found, err = r.observe()
	if err == nil && found.corrupt {
		err = fmt.Errorf("replace the current generation: %w", generation.ErrIncomplete)
	}
	return found, replacement, err
}

// observe reads the journal and the current generation.
func (r resumer) observe() (situation, error) {
	journal, pending, err := r.store.Journal()
	if err != nil {
		return situation{}, err
	}

	current, _, err := r.running.current()
	corrupt := errors.Is(err, generation.ErrIncomplete)
	if err != nil && !corrupt {
		return situation{}, err
	}

	if corrupt {
		current = generation.Manifest{}
	}

	return situation{
		journal: journal,
		pending: pending,
		current: current,
		corrupt: corrupt,
	}, nil
}

// finishPending ends a change that was cut off, so that the next one begins at
// a complete generation. If its files cannot be placed and no unit has seen it
// yet, it abandons the change, as the next one may repair the node. It returns
// the journal of a change that is complete and waits for its verdict, or the
// zero Journal.
func (r resumer) finishPending(ctx context.Context) (generation.Journal, error) {
	j, pending, err := r.store.Journal()
	if err != nil || !pending {
		return generation.Journal{}, err
	}

	// The change is complete and only its verdict is missing: the next change
	// replaces it.
	if r.changes.watched.gate != nil {
		return j, nil
	}

	found, err := r.observe()
	if err != nil {
		return generation.Journal{}, err
	}

	decided := decideResume(found, r.bootID)
	switch decided.step {
	case stepReplace: // The next generation takes its place.
		return generation.Journal{}, nil
	case stepAbandon:
		return generation.Journal{}, unfinished(r.abandon(ctx, found, decided))
	}

	failed := r.complete(ctx, j, decided)

	// Units that did not come up are part of the next plan.
	if r.changes.watched.gate != nil {
		return j, nil
	}

	if _, still, err := r.store.Journal(); err != nil || !still {
		return generation.Journal{}, err
	}

	started := len(r.units.progressOf(j).Done) > 0
	if !errors.As(failed, new(*placeError)) || decided.step == stepRevert || started {
		return generation.Journal{}, fmt.Errorf("complete the apply before: %w", failed)
	}

	have, err := r.changes.candidates.load(j.From)
	if err != nil {
		return generation.Journal{}, err
	}
	if err := r.changes.abandonFlipped(change{have: have, want: found.current}, j); err != nil {
		return generation.Journal{}, errors.Join(failed, err)
	}

	*r.units.reload = true
	return generation.Journal{}, unfinished(r.units.reloadPending(ctx))
}

// replaceCurrent replaces a corrupt or lost current generation and returns the
// name of the new one: the last that has proven itself, or else the newest that
// is not held. It returns "" if the node has no other.
func (r resumer) replaceCurrent(ctx context.Context, found situation) (string, error) {
	want, err := r.changes.candidates.newest(found.journal)
	if err != nil {
		return "", err
	}

	if want.Name() == "" {
		if found.corrupt {
			err = r.store.Deactivate(r.changes.osVersion)
		}
		return "", err
	}

	_, err = r.changes.rollback(ctx, generation.Manifest{}, want,
		cause{reason: "the current generation was damaged"})
	return want.Name(), err
}
