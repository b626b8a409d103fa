package generation

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
)

// Prune deletes all but the newest keep generations and those that are current
// for any OS version, what earlier attempts left half written, and the content
// that nothing refers to any more. With nothing to delete it writes nothing.
// While the current generation of some OS version is torn, all content stays.
func (s *Store) Prune(keep int) error {
	names, err := s.List()
	if err != nil {
		return fmt.Errorf("prune: %w", err)
	}
	kept := names[max(0, len(names)-keep):]
	current, err := s.currentNames()
	if err != nil {
		return fmt.Errorf("prune: %w", err)
	}
	kept = append(slices.Clone(kept), current...)
	if err := s.deleteOthers(generationsDir, kept); err != nil {
		return fmt.Errorf("prune: %w", err)
	}
	used, err := s.usedContent(kept)
	if errors.Is(err, ErrTorn) {
		return nil // Some OS version's current is damaged: what it needs is unknown.
	}
	if err != nil {
		return fmt.Errorf("prune: %w", err)
	}
	if err := s.deleteOthers(contentDir, used); err != nil {
		return fmt.Errorf("prune: %w", err)
	}
	return nil
}

// currentNames are the generations that some OS version has as its current.
func (s *Store) currentNames() ([]string, error) {
	versions, err := fs.ReadDir(s.dir.Root().FS(), "os")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, v := range versions {
		if !v.IsDir() {
			continue
		}
		target, err := s.dir.Root().Readlink(path.Join("os", v.Name(), "current"))
		if err == nil {
			names = append(names, path.Base(target))
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return names, nil
}

// usedContent are the names of the content that generations refer to. A
// generation that cannot be read is an error.
func (s *Store) usedContent(generations []string) ([]string, error) {
	var used []string
	for _, name := range generations {
		m, err := s.Load(name)
		if err != nil {
			return nil, err
		}
		for _, e := range m.Entries {
			if e.Kind == KindFile {
				used = append(used, path.Base(contentName(e)))
			}
		}
	}
	return used, nil
}

func (s *Store) deleteOthers(dir string, kept []string) error {
	children, err := fs.ReadDir(s.dir.Root().FS(), dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	keep := map[string]bool{}
	for _, name := range kept {
		keep[name] = true
	}
	for _, child := range children {
		if keep[child.Name()] {
			continue
		}
		if err := s.dir.RemoveAll(path.Join(dir, child.Name())); err != nil {
			return err
		}
	}
	return nil
}
