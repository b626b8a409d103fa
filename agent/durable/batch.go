package durable

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"
)

// Batch creates new names that nothing refers to yet, and makes all of them
// durable at once. Until Sync has returned, a power cut may lose or corrupt any
// of them.
//
// It keeps its directories open, as looking up each name from the root would
// cost more than creating it. Nothing else may change those directories. Close
// must be called.
type Batch struct {
	dir   *Dir
	files []string
	dirs  map[string]bool
	open  map[string]*os.File
}

// manySyncs is the number of fsyncs that cost more than one syncfs(2), which
// also writes back the data of other programs.
const manySyncs = 32

// Batch begins a batch.
func (d *Dir) Batch() *Batch {
	return &Batch{dir: d, dirs: map[string]bool{}, open: map[string]*os.File{}}
}

// Close ends the batch.
func (b *Batch) Close() {
	for _, f := range b.open {
		_ = f.Close() // It was not written to.
	}
	clear(b.open)
}

// maxOpen is the number of directories a batch keeps open.
const maxOpen = 64

// begin comes before each change.
func (b *Batch) begin(s Step) error {
	b.makeRoom()
	return b.dir.step(s)
}

func (b *Batch) makeRoom() {
	if len(b.open) >= maxOpen {
		b.Close()
	}
}

// directory returns the open directory name, valid until the next change.
func (b *Batch) directory(name string) (*os.File, error) {
	f := b.open[name]
	if f == nil {
		var err error
		f, err = b.dir.open(name)
		if err != nil {
			return nil, err
		}
		b.open[name] = f
	}
	return f, nil
}

// File creates the file name. Its directory must exist. The error names it.
func (b *Batch) File(name string, data io.Reader, mode fs.FileMode) error {
	b.makeRoom()
	dir, err := b.directory(path.Dir(name))
	if err != nil {
		return err
	}
	if err := b.dir.fill(dir, name, data, mode, false); err != nil {
		return err
	}

	b.files = append(b.files, name)
	b.dirs[path.Dir(name)] = true
	return nil
}

// Mkdir creates the directory name. If it is still open under that name, it was
// deleted.
func (b *Batch) Mkdir(name string) error {
	if err := b.begin(Step{Op: Mkdir, Name: name}); err != nil {
		return err
	}

	if b.open[name] != nil {
		b.Close()
	}

	parent, err := b.directory(path.Dir(name))
	if err == nil {
		err = mkdirAt(parent, name)
	}

	if err != nil {
		return fmt.Errorf("make directory %s: %w", name, err)
	}

	b.dirs[name] = true
	b.dirs[path.Dir(name)] = true
	return nil
}

// Link creates name as a hard link to the file old.
func (b *Batch) Link(old, name string) error {
	if err := b.begin(Step{Op: Link, Name: name, From: old}); err != nil {
		return err
	}

	from, err := b.directory(path.Dir(old))
	if err != nil {
		return fmt.Errorf("hard link %s: %w", name, err)
	}

	to, err := b.directory(path.Dir(name))
	if err == nil {
		err = unix.Linkat(int(from.Fd()), path.Base(old), int(to.Fd()), path.Base(name), 0)
	}

	if err != nil {
		return fmt.Errorf("hard link %s: %w", name, err)
	}

	b.dirs[path.Dir(name)] = true
	return nil
}

// Symlink creates name as a symbolic link to target.
func (b *Batch) Symlink(target, name string) error {
	if err := b.begin(Step{Op: Symlink, Name: name, From: target}); err != nil {
		return fmt.Errorf("link %s: %w", name, err)
	}

	dir, err := b.directory(path.Dir(name))
	if err == nil {
		err = unix.Symlinkat(target, int(dir.Fd()), path.Base(name))
	}

	if err != nil {
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
		err := b.dir.in("sync", name, func(dir *os.File) error {
			return b.dir.syncFile(dir, name)
		})
		if err != nil {
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
