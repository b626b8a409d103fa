package apply

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/generation"
)

// repairs makes the current generation what it was, in the store and on the
// node.
type repairs struct {
	store   *generation.Store
	running running
	files   files
	units   units
}

// repair implements [Executor.Repair].
func (r repairs) repair(
	ctx context.Context, paths []string, content map[string]config.Content,
) ([]string, error) {
	repaired, err := r.restoreCurrent(content)
	if err != nil {
		return repaired, err
	}

	m, ok, err := r.running.current()
	if err != nil || !ok {
		return repaired, err
	}

	stored, storeErr := r.files.repairStored(m, paths, content)
	placed, placeErr := r.files.repair(m, paths)
	repaired = slices.Concat(repaired, stored, placed)

	return repaired, errors.Join(storeErr, placeErr, r.units.reloadFor(ctx, repaired))
}

// restoreCurrent restores the current generation if something removed the link
// to it, or its link to its files.
func (r repairs) restoreCurrent(content map[string]config.Content) ([]string, error) {
	last := *r.running.last
	_, ok, err := r.running.current()
	if ok || last.Name() == "" || (err != nil && !errors.Is(err, generation.ErrIncomplete)) {
		return nil, err
	}

	osVersion := r.running.osVersion
	repaired := path.Join("os", osVersion, "current")
	if _, err := r.store.Load(last.Name()); errors.Is(err, generation.ErrIncomplete) {
		repaired = path.Join("generations", last.Name(), "root")
		err := r.store.Repair(last, r.files.sources(r.store.Damaged(last), content))
		if err != nil {
			return nil, err
		}
	}

	if err := r.store.Activate(osVersion, last.Name()); err != nil {
		return nil, err
	}

	return []string{path.Join(generation.Dir, repaired)}, nil
}

// verify implements [Executor.Verify].
func (r repairs) verify(
	ctx context.Context,
	content map[string]config.Content,
	repair bool,
	report func(done, all int64),
) (Verified, error) {
	current, _, err := r.running.current()
	if err != nil && !errors.Is(err, generation.ErrIncomplete) {
		return Verified{}, err
	}

	v, err := r.files.verify(current, content, repair, report)
	if err != nil {
		return v, err
	}

	var repaired []string
	for _, bad := range v.Bad {
		if bad.Repaired {
			repaired = append(repaired, bad.Path)
		}
	}

	return v, r.units.reloadFor(ctx, repaired)
}

// repairStored restores the given links and content in the store.
func (f files) repairStored(
	m generation.Manifest, ways []string, content map[string]config.Content,
) ([]string, error) {
	ways = slices.DeleteFunc(slices.Clone(ways), func(name string) bool {
		return !strings.HasPrefix(name, generation.Dir+"/")
	})
	if len(ways) == 0 {
		return nil, nil
	}

	damaged := f.store.DamagedOf(m, ways)
	if len(damaged) == 0 {
		return nil, nil
	}

	return ways, f.store.Repair(m, f.sources(damaged, content))
}
