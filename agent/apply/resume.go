package apply

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/plan"
)

// Resumed is what Resume found to do.
type Resumed struct {
	// Finished names the generation whose apply was cut off and is now done.
	Finished string
	// Repaired are the paths that were not what the generation says.
	Repaired []string
}

// Resume completes what an earlier run was cut off in: the node is then exactly
// the current generation, the one before the cut or the one after it. On a
// node where nothing was cut off and nothing has drifted it writes nothing and
// asks systemd for nothing.
func (e *Executor) Resume(ctx context.Context) (Resumed, error) {
	current, _, err := e.Current()
	if err != nil {
		return Resumed{}, err
	}
	j, cut, err := e.readJournal()
	if err != nil {
		return Resumed{}, err
	}
	if cut && j.To == current.Name() && j.To != "" {
		return Resumed{Finished: j.To}, e.complete(ctx, current, j)
	}
	if cut {
		err = e.undo(j, current)
	}
	if err != nil {
		return Resumed{}, err
	}
	repaired, err := e.reconcile(ctx, current)
	if err == nil && cut {
		err = e.removeJournal()
	}
	return Resumed{Repaired: repaired}, err
}

// undo takes away what a change that is not the current generation may have
// placed: the cut came before its flip, or while it was being reverted.
func (e *Executor) undo(j journal, current generation.Manifest) error {
	if j.To == "" {
		return nil
	}
	to, err := e.store().Load(j.To)
	if errors.Is(err, generation.ErrTorn) {
		return nil
	}
	if err != nil {
		return err
	}
	return e.clear(to, current)
}

// complete does all of a change again that comes after the flip.
func (e *Executor) complete(ctx context.Context, want generation.Manifest, j journal) error {
	have, err := e.before(j)
	if err != nil {
		return unfinished(err)
	}
	if err := e.place(have, want); err != nil {
		return unfinished(&placeError{err})
	}
	p, err := e.diff(ctx, have, want)
	if err != nil {
		return unfinished(err)
	}
	if j.BootID != e.BootID {
		// systemd has started with the new files: nothing runs the old ones.
		j.Done = nil
		p.Units = slices.DeleteFunc(p.Units, func(a plan.Action) bool { return a.Verb == plan.Restart })
	}
	return e.finish(ctx, change{have: have, want: want, plan: p}, j)
}

// placeError is an error in bringing the files of a generation about.
type placeError struct{ error }

func (e *placeError) Unwrap() error { return e.error }

// settle ends an apply that was cut off, so that the next begins at a whole
// generation. One whose files cannot be placed is taken back, as the next may
// be what mends it, if no unit has seen it yet.
func (e *Executor) settle(ctx context.Context) error {
	j, cut, err := e.readJournal()
	if err != nil || !cut {
		return err
	}
	current, _, err := e.Current()
	if errors.Is(err, generation.ErrTorn) {
		return nil // The next generation replaces it.
	}
	if err != nil {
		return err
	}
	if j.To == "" || j.To != current.Name() {
		if err := e.undo(j, current); err != nil {
			return unfinished(err)
		}
		return unfinished(e.removeJournal())
	}
	failed := e.complete(ctx, current, j)
	if _, still, err := e.readJournal(); err != nil || !still {
		return err // Units that did not come up are the next plan's.
	}
	if !errors.As(failed, new(*placeError)) || len(j.Done) > 0 {
		return fmt.Errorf("complete the apply before: %w", failed)
	}
	have, err := e.before(j)
	if err != nil {
		return err
	}
	if err := e.revert(change{have: have, want: current}); err != nil {
		return errors.Join(failed, err)
	}
	e.reload = true
	return unfinished(e.reloadOwed(ctx))
}

// before is the generation that j began with, the zero Manifest if there was
// none or if it cannot be read any more.
func (e *Executor) before(j journal) (generation.Manifest, error) {
	if j.From == "" {
		return generation.Manifest{}, nil
	}
	have, err := e.store().Load(j.From)
	if errors.Is(err, generation.ErrTorn) {
		return generation.Manifest{}, nil
	}
	return have, err
}

// reconcile makes the paths of the node those of m and returns the ones that
// were not.
func (e *Executor) reconcile(ctx context.Context, m generation.Manifest) ([]string, error) {
	repaired, err := e.repair(m)
	if err != nil {
		return repaired, err
	}
	stale, err := e.removeStale(m)
	if err != nil {
		return repaired, err
	}
	repaired = append(repaired, stale...)
	if slices.ContainsFunc(repaired, func(p string) bool { return strings.HasPrefix(p, "/etc/systemd/system/") }) {
		e.reload = true
	}
	return repaired, e.reloadOwed(ctx)
}

// reloadOwed has systemd read its units if a repair asks for it.
func (e *Executor) reloadOwed(ctx context.Context) error {
	if !e.reload {
		return nil
	}
	err := e.Units.Reload(ctx)
	e.reload = err != nil
	return err
}

// osVersionName is the file that names the OS version that ran last.
const osVersionName = "os-version"

// removeStale takes away what the OS version that ran last placed outside of
// /etc, which is made anew at each boot: after an update or a fallback of the
// OS, its configuration finds what the other one left. Only what is exactly as
// that generation had it goes. Under the same OS version there is nothing to do.
func (e *Executor) removeStale(current generation.Manifest) ([]string, error) {
	text, err := e.State.Root().ReadFile(osVersionName)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the last OS version: %w", err)
	}
	last := strings.TrimSpace(string(text))
	if last == e.OSVersion {
		return nil, nil
	}
	var removed []string
	if last != "" {
		removed, err = e.removeOther(last, current)
		if err != nil {
			return removed, err
		}
	}
	_, err = e.State.WriteFile(osVersionName, []byte(e.OSVersion+"\n"), 0o644)
	return removed, err
}

// removeOther is removeStale for the generation that osVersion has as its
// current one, if it has one.
func (e *Executor) removeOther(osVersion string, current generation.Manifest) ([]string, error) {
	other, ok, err := e.store().Current(osVersion)
	if errors.Is(err, generation.ErrTorn) || err == nil && !ok {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return e.removePlaced(other, current, "/etc/")
}
