package generation

import (
	"errors"
	"fmt"
	"io/fs"
)

// Clear leaves no generation, and no content. That a generation is current, or
// was to become it, goes first: cut off anywhere, none comes back without what
// it refers to. With nothing to delete it writes nothing.
func (s *Store) Clear() error {
	for _, forget := range []func() error{s.RemoveJournal, s.removeCurrent, s.removeObjects} {
		if err := forget(); err != nil {
			return fmt.Errorf("clear the store: %w", err)
		}
	}
	return nil
}

func (s *Store) removeCurrent() error {
	if _, err := fs.Lstat(s.fsys, "os"); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := s.dir.RemoveAll("os"); err != nil {
		return err
	}
	return s.dir.SyncDir(".")
}

// removeObjects deletes all that is stored, durably: it may be secret.
func (s *Store) removeObjects() error {
	*s.inventory = inventory{}
	clear(s.links)

	for _, dir := range []string{generationsDir, treeDir, contentDir} {
		deleted, err := s.deleteOthers(dir, nil)
		if err != nil {
			return err
		}
		if !deleted {
			continue
		}
		if err := s.dir.SyncDir(dir); err != nil {
			return err
		}
	}

	return nil
}
