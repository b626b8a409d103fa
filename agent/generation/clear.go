package generation

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/loam-os/loam/agent/durable"
)

// Clear deletes all generations and all content. The links that make a
// generation current, and the journal, go first: after an interruption no
// generation comes back without its content. With nothing to delete it writes
// nothing.
func (s *Store) Clear() error {
	err := s.RemoveJournal()
	if err == nil {
		err = removeCurrent(s.dir)
	}
	if err == nil {
		err = s.removeObjects()
	}
	if err != nil {
		return fmt.Errorf("clear the store: %w", err)
	}
	return nil
}

// removeCurrent deletes the links that make generations current.
func removeCurrent(dir *durable.Dir) error {
	if _, err := fs.Lstat(dir.FS(), "os"); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := dir.RemoveAll("os"); err != nil {
		return err
	}
	return dir.SyncDir(".")
}

// removeObjects deletes all stored objects durably, since they may be secret.
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
