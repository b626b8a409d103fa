package durable

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"
)

// Dir is a directory tree that is changed durably. It has one writer. Other
// processes may change its directories: what it writes and removes is in the
// directory of that name, and never behind a link but one of [Dir.WithImage].
type Dir struct {
	tree
	steps
	// spare makes room for records; nil for no spare.
	spare *Spare
}

// New returns a Dir of root. hook may be nil.
func New(root *os.Root, hook Hook) *Dir {
	if hook == nil {
		hook = func(Step) error { return nil }
	}
	return &Dir{tree: tree{root: root}, steps: steps{hook: hook}}
}

// in calls change with the open directory of name. doing is for the error.
func (d *Dir) in(doing, name string, change func(dir *os.File) error) error {
	dir, err := d.open(path.Dir(name))
	if err != nil {
		return fmt.Errorf("%s %s: %w", doing, name, err)
	}
	defer dir.Close()
	return change(dir)
}

// WriteFile makes name a regular file with these bytes and permission bits, and
// reports whether it had to write. It does not rewrite equal content and mode.
// The parent directory must exist. An error of fsync is final: the kernel has
// dropped the pages, so a second fsync would wrongly succeed (fsync(2)).
func (d *Dir) WriteFile(name string, data []byte, mode fs.FileMode) (bool, error) {
	if d.equal(name, data, mode) {
		return false, nil
	}
	return true, d.spare.withRoom(
		func() error { return d.WriteFrom(name, bytes.NewReader(data), mode) },
		func() error {
			return d.in("write", name, func(dir *os.File) error {
				return d.writeInSpare(dir, name, data, mode, d.spare)
			})
		},
	)
}

// WriteFrom is WriteFile for a stream; it always writes.
func (d *Dir) WriteFrom(name string, data io.Reader, mode fs.FileMode) error {
	return d.in("write", name, func(dir *os.File) error {
		return d.write(dir, name, data, mode)
	})
}

// WriteVolatile is WriteFile for what is worthless after a power cut. It is
// never synced, but is complete at every moment while the kernel runs.
func (d *Dir) WriteVolatile(name string, data []byte, mode fs.FileMode) error {
	return d.in("write", name, func(dir *os.File) error {
		return d.replace(dir, name, bytes.NewReader(data), mode, false)
	})
}

// Symlink makes name a symbolic link to target and reports whether it had to.
func (d *Dir) Symlink(target, name string) (bool, error) {
	if have, err := d.root.Readlink(name); err == nil && have == target {
		return false, nil
	}

	err := d.spare.withRoom(func() error {
		return d.in("link", name, func(dir *os.File) error {
			return d.symlink(dir, target, name)
		})
	}, nil)
	return err == nil, err
}

// Append adds a line to name, which is created with mode if it does not exist.
// A power cut may leave a part of the line, which readers must skip. If there is
// no room, the file is replaced by one with the line.
func (d *Dir) Append(name string, line []byte, mode fs.FileMode) error {
	return d.spare.withRoom(
		func() error {
			return d.in("append to", name, func(dir *os.File) error {
				return d.append(dir, name, line, mode)
			})
		},
		func() error {
			text, err := d.withLine(name, line)
			if err != nil {
				return err
			}
			return d.in("append to", name, func(dir *os.File) error {
				return d.writeInSpare(dir, name, text, mode, d.spare)
			})
		},
	)
}

// Discard removes what an interrupted write of name has left beside it.
func (d *Dir) Discard(name string) error {
	temp := temporary(name)
	if _, err := d.root.Lstat(temp); err != nil {
		return nil
	}
	return d.Remove(temp)
}

// Remove deletes the file, link or empty directory name. It is not an error if
// name does not exist.
func (d *Dir) Remove(name string) error {
	if err := d.step(Step{Op: Remove, Name: name}); err != nil {
		return err
	}

	dir, err := d.open(path.Dir(name))
	if err == nil {
		defer dir.Close()
		err = removeAt(dir, name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", name, err)
	}

	return d.syncDir(dir, path.Dir(name))
}

// RemoveAll deletes name and everything below it. Nothing may refer to it any
// more, as a power cut leaves any part of it. The caller syncs the directory,
// or deletes again at the next start.
func (d *Dir) RemoveAll(name string) error {
	if err := d.step(Step{Op: RemoveAll, Name: name}); err != nil {
		return err
	}
	err := d.in("remove", name, func(dir *os.File) error {
		return removeAllAt(dir, name)
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Move renames from to name, which must not exist or must be something that
// rename(2) replaces.
func (d *Dir) Move(from, name string) error {
	if err := d.step(Step{Op: Rename, Name: name, From: from}); err != nil {
		return err
	}

	old, err := d.open(path.Dir(from))
	if err != nil {
		return fmt.Errorf("move %s to %s: %w", from, name, err)
	}
	defer old.Close()

	dir, err := d.open(path.Dir(name))
	if err != nil {
		return fmt.Errorf("move %s to %s: %w", from, name, err)
	}
	defer dir.Close()

	err = unix.Renameat(int(old.Fd()), path.Base(from), int(dir.Fd()), path.Base(name))
	if err != nil {
		return fmt.Errorf("move %s to %s: %w", from, name, err)
	}
	return errors.Join(d.syncDir(dir, path.Dir(name)), d.syncDir(old, path.Dir(from)))
}

// SyncAll makes the entire file system of the directory durable.
func (d *Dir) SyncAll() error {
	if err := d.step(Step{Op: SyncAll, Name: "."}); err != nil {
		return err
	}

	f, err := d.root.Open(".")
	if err != nil {
		return fmt.Errorf("sync the file system: %w", err)
	}

	err = unix.Syncfs(int(f.Fd())) // reports errors of write-back since Linux 5.8
	err = errors.Join(err, f.Close())
	if err != nil {
		return fmt.Errorf("sync the file system: %w", err)
	}

	return nil
}

// SyncDir makes the entries of directory name durable.
func (d *Dir) SyncDir(name string) error {
	if d.together != nil {
		d.together[name] = true
		return nil
	}

	dir, err := d.open(name)
	if err != nil {
		return fmt.Errorf("sync %s: %w", name, err)
	}
	defer dir.Close()
	return d.syncDir(dir, name)
}

// Together calls f and then syncs each directory that f changed once. Until
// then a power cut may undo any of the changes, but each one entirely.
func (d *Dir) Together(f func() error) error {
	d.together = map[string]bool{}
	err := f()
	dirs := slices.Sorted(maps.Keys(d.together))
	d.together = nil

	for _, name := range dirs {
		if one := d.SyncDir(name); !errors.Is(one, fs.ErrNotExist) {
			err = errors.Join(err, one)
		}
	}

	return err
}
