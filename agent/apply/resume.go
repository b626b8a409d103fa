package apply

import (
	"context"
	"errors"
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
	if _, err := e.removePlaced(to, current, ""); err != nil {
		return err
	}
	return e.removeDirs(to.Dirs, current.Dirs)
}

// complete does all of a change again that comes after the flip.
func (e *Executor) complete(ctx context.Context, want generation.Manifest, j journal) error {
	have, err := e.before(j)
	if err != nil {
		return err
	}
	if err := e.place(have, want); err != nil {
		return err
	}
	p, err := e.diff(ctx, have, want)
	if err != nil {
		return err
	}
	if j.BootID != e.BootID {
		// systemd has started with the new files: nothing runs the old ones.
		j.Done = nil
		p.Units = slices.DeleteFunc(p.Units, func(a plan.Action) bool { return a.Verb == plan.Restart })
	}
	return e.finish(ctx, change{have: have, want: want, plan: p}, j)
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
		return repaired, e.Units.Reload(ctx)
	}
	return repaired, nil
}

// removeStale takes away what other generations placed outside of /etc, which
// is made anew at each boot: after a fallback of the OS, its configuration
// finds what the newer one left. Only what is exactly as that generation had
// it goes.
func (e *Executor) removeStale(current generation.Manifest) ([]string, error) {
	others, err := e.store().List()
	if err != nil {
		return nil, err
	}
	var removed []string
	for _, name := range others {
		m, err := e.store().Load(name)
		if err != nil {
			return removed, err
		}
		gone, err := e.removePlaced(m, current, "/etc/")
		if err != nil {
			return removed, err
		}
		removed = append(removed, gone...)
	}
	return removed, nil
}

// removePlaced takes away the paths that are just as m has them and that
// current does not have, those beneath except left alone ("" for none).
func (e *Executor) removePlaced(m, current generation.Manifest, except string) ([]string, error) {
	content, err := e.store().Content(m.Name())
	if err != nil {
		return nil, err
	}
	defer content.Close()
	wanted := pathsOf(current)
	var removed []string
	for _, p := range generation.Place(m) {
		alone := except != "" && strings.HasPrefix(p.Path, except)
		if alone || wanted[p.Path] || !generation.Placed(e.Node.Root(), p, content) {
			continue
		}
		if err := e.takeAway(p.Path); err != nil {
			return removed, err
		}
		removed = append(removed, p.Path)
	}
	return removed, nil
}
