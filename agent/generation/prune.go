package generation

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"

	"github.com/loam-os/loam/agent/durable"
)

// Prune deletes all generations except the newest keep, the named ones, and the
// current one of each OS version, and then sweeps. With nothing to delete it
// writes nothing.
func (s *Store) Prune(keep int, besides ...string) error {
	names, err := s.names()
	if err != nil {
		return fmt.Errorf("prune: %w", err)
	}

	current, err := s.currentNames()
	if err != nil {
		return fmt.Errorf("prune: %w", err)
	}

	kept := slices.Concat(names[max(0, len(names)-keep):], current, besides)
	wasSwept := s.inventory.swept

	deleted, err := s.deleteOthers(generationsDir, kept)
	if err == nil && deleted {
		s.inventory.swept = false
		// Before the content: no complete generation may come back without its
		// content.
		err = s.dir.SyncDir(generationsDir)
	}

	if err != nil {
		s.inventory.swept = false
		return fmt.Errorf("prune: %w", err)
	}

	if !deleted || !wasSwept {
		return s.Sweep()
	}

	left := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return !slices.Contains(kept, name)
	})

	return s.sweep(left)
}

// Delete deletes a generation that is not current for any OS version, and
// sweeps.
func (s *Store) Delete(name string) error {
	delete(s.loaded, name)
	s.inventory.swept = false
	if err := s.dir.RemoveAll(path.Join(generationsDir, name)); err != nil {
		return err
	}
	if err := s.dir.SyncDir(generationsDir); err != nil {
		return err
	}
	return s.Sweep()
}

// Sweep deletes objects that no generation refers to, such as those of an
// interrupted write. It deletes nothing while the current generation of some OS
// version is corrupt, as its objects are unknown.
func (s *Store) Sweep() error {
	if s.inventory.swept {
		return nil
	}

	names, err := s.List()
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}

	current, err := s.currentNames()
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}

	for _, name := range current {
		if !slices.Contains(names, name) {
			return nil
		}
	}

	if _, err := s.deleteOthers(generationsDir, names); err != nil {
		return fmt.Errorf("sweep: %w", err)
	}

	return s.sweep(names)
}

// sweep deletes all content and directories except those of the generations
// called names, which must be all that exist.
func (s *Store) sweep(names []string) error {
	s.inventory.names = names
	s.inventory.objects = map[string]bool{}

	for _, name := range names {
		m, err := s.manifest(name)
		if err != nil {
			return fmt.Errorf("sweep: %w", err)
		}
		s.inventory.count(m, s.treesOf(m))
	}

	for _, dir := range []string{treeDir, contentDir} {
		_, err := s.deleteOthers(dir, slices.Collect(maps.Keys(s.inventory.objects)))
		if err != nil {
			return fmt.Errorf("sweep: %w", err)
		}
	}

	maps.DeleteFunc(s.links, func(_, name string) bool {
		return !s.inventory.objects[path.Dir(name)]
	})

	s.inventory.swept = true
	return nil
}

// deleteOthers deletes the names in dir that are not among kept, compared
// without their directories, and reports whether there were any.
func (s *Store) deleteOthers(dir string, kept []string) (deleted bool, err error) {
	children, err := namesIn(s.dir, dir)
	if err != nil {
		return false, err
	}

	keep := map[string]bool{}
	for _, name := range kept {
		keep[path.Base(name)] = true
	}

	for _, child := range children {
		if keep[child] {
			continue
		}
		delete(s.loaded, child)
		if err := s.dir.RemoveAll(path.Join(dir, child)); err != nil {
			return deleted, err
		}
		deleted = true
	}

	return deleted, nil
}

// namesIn returns the names in dir in no order, none if dir is absent. It
// avoids ReadDir, which would query the kernel for each.
func namesIn(in *durable.Dir, dir string) ([]string, error) {
	f, err := in.Root().Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}
