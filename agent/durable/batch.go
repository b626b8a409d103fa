package durable

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
)

// Batch makes new names that nothing refers to yet, and all of them durable at
// once. Until Sync has returned, any part of them may be lost or torn.
type Batch struct {
	dir   *Dir
	files []string
	dirs  map[string]bool
}

// manySyncs is how many fsyncs cost more than one syncfs(2), which also writes
// what other programs have not written back yet.
const manySyncs = 32

// Batch begins a batch.
func (d *Dir) Batch() *Batch { return &Batch{dir: d, dirs: map[string]bool{}} }

// File makes the new file name. Its directory must exist. The error names it.
func (b *Batch) File(name string, data io.Reader, mode fs.FileMode) error {
	if err := b.dir.fill(name, data, mode); err != nil {
		return err
	}
	b.files = append(b.files, name)
	b.dirs[path.Dir(name)] = true
	return nil
}

// Mkdir makes the new directory name.
func (b *Batch) Mkdir(name string) error {
	if err := b.dir.mkdir(name); err != nil {
		return err
	}
	b.dirs[name], b.dirs[path.Dir(name)] = true, true
	return nil
}

// Link makes the new name a hard link to the file old.
func (b *Batch) Link(old, name string) error {
	if err := b.dir.step(Step{Op: Link, Name: name, From: old}); err != nil {
		return err
	}
	if err := b.dir.root.Link(old, name); err != nil {
		return fmt.Errorf("hard link %s: %w", name, err)
	}
	b.dirs[path.Dir(name)] = true
	return nil
}

// Symlink makes the new name a symbolic link that says target.
func (b *Batch) Symlink(target, name string) error {
	if err := b.dir.symlink(target, name); err != nil {
		return fmt.Errorf("link %s: %w", name, err)
	}
	b.dirs[path.Dir(name)] = true
	return nil
}

// Sync makes the batch durable.
func (b *Batch) Sync() error {
	if len(b.files)+len(b.dirs) > manySyncs {
		return b.dir.SyncAll()
	}
	for _, name := range b.files {
		if err := b.dir.syncFile(name); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.dirs)) {
		if err := b.dir.SyncDir(name); err != nil {
			return err
		}
	}
	return nil
}
