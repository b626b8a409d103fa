// Package durable changes files so that a power cut leaves the old or the new
// state, never a mix: write a temporary, fsync it, rename, fsync the directory
// (rename(2), fsync(2)). Every name is relative to the root it is given.
package durable

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
)

// Dir is a directory tree that is changed durably. It has one writer.
type Dir struct {
	root *os.Root
	hook func(step string) error
}

// New makes a Dir of root. hook, which may be nil, is called before each
// durable step with what is about to happen ("rename etc/hosts"); an error from
// it ends the operation at that point and leaves everything as it is, as a
// power cut does.
func New(root *os.Root, hook func(step string) error) *Dir {
	if hook == nil {
		hook = func(string) error { return nil }
	}
	return &Dir{root: root, hook: hook}
}

// Root is the tree that d changes, for reading.
func (d *Dir) Root() *os.Root { return d.root }

// WriteFile makes name a regular file with these bytes and permission bits,
// and reports whether it had to write. Equal content and mode is not
// rewritten. The parent directory must exist. An error of fsync is final: the
// kernel has dropped the pages, so a second fsync would lie (fsync(2)).
func (d *Dir) WriteFile(name string, data []byte, mode fs.FileMode) (bool, error) {
	did, err := d.AddFile(name, data, mode)
	if !did || err != nil {
		return did, err
	}
	return true, d.SyncDir(path.Dir(name))
}

// AddFile is WriteFile for many files of one directory: the caller syncs the
// directory once, after the last of them.
func (d *Dir) AddFile(name string, data []byte, mode fs.FileMode) (bool, error) {
	if d.equal(name, data, mode) {
		return false, nil
	}
	temp := temporary(name)
	if err := d.writeTemporary(temp, data, mode); err != nil {
		return false, fmt.Errorf("write %s: %w", name, err)
	}
	return true, d.rename(temp, name)
}

// Symlink makes name a symbolic link to target and reports whether it had to.
func (d *Dir) Symlink(target, name string) (bool, error) {
	if have, err := d.root.Readlink(name); err == nil && have == target {
		return false, nil
	}
	temp := temporary(name)
	if err := d.step("symlink " + name); err != nil {
		return false, err
	}
	if err := d.discard(temp); err != nil {
		return false, fmt.Errorf("link %s: %w", name, err)
	}
	if err := d.root.Symlink(target, temp); err != nil {
		return false, fmt.Errorf("link %s: %w", name, err)
	}
	return true, d.replace(temp, name)
}

// Remove deletes the file, link or empty directory name. A name that is not
// there is no error.
func (d *Dir) Remove(name string) error {
	if err := d.step("remove " + name); err != nil {
		return err
	}
	if err := d.root.Remove(name); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return d.SyncDir(path.Dir(name))
}

// RemoveAll deletes name and all beneath it. It is for what nothing refers to
// any more: a cut leaves any part of it.
func (d *Dir) RemoveAll(name string) error {
	if err := d.step("remove all " + name); err != nil {
		return err
	}
	if err := d.root.RemoveAll(name); err != nil {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return d.SyncDir(path.Dir(name))
}

// SyncDir makes the entries of directory name durable.
func (d *Dir) SyncDir(name string) error {
	if err := d.step("sync directory " + name); err != nil {
		return err
	}
	f, err := d.root.Open(name)
	if err != nil {
		return fmt.Errorf("sync directory %s: %w", name, err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync directory %s: %w", name, err)
	}
	return nil
}

func (d *Dir) step(step string) error { return d.hook(step) }

func (d *Dir) equal(name string, data []byte, mode fs.FileMode) bool {
	info, err := d.root.Lstat(name)
	if err != nil || info.Mode() != mode || info.Size() != int64(len(data)) {
		return false
	}
	have, err := d.root.ReadFile(name)
	return err == nil && bytes.Equal(have, data)
}

// discard removes a temporary that a cut has left behind.
func (d *Dir) discard(temp string) error {
	if err := d.root.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (d *Dir) writeTemporary(temp string, data []byte, mode fs.FileMode) error {
	if err := d.step("create " + temp); err != nil {
		return err
	}
	if err := d.discard(temp); err != nil {
		return err
	}
	f, err := d.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := d.fill(f, data, mode); err != nil {
		f.Close()
		return errors.Join(err, d.discard(temp))
	}
	return f.Close()
}

// fill writes data, sets the exact mode (open(2) applies the umask) and syncs.
func (d *Dir) fill(f *os.File, data []byte, mode fs.FileMode) error {
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := f.Chmod(mode); err != nil {
		return err
	}
	return f.Sync()
}

// replace makes name what temp is, durably.
func (d *Dir) replace(temp, name string) error {
	if err := d.rename(temp, name); err != nil {
		return err
	}
	return d.SyncDir(path.Dir(name))
}

// rename is the step at which name changes.
func (d *Dir) rename(temp, name string) error {
	if err := d.step("rename " + name); err != nil {
		return err
	}
	if err := d.root.Rename(temp, name); err != nil {
		return errors.Join(fmt.Errorf("rename to %s: %w", name, err), d.discard(temp))
	}
	return nil
}

// temporary is the name that a new version of name is written under: in the
// same directory, hidden, with a suffix that no daemon reading that directory
// takes for its own (.conf, .yaml), and never longer than a name may be.
func temporary(name string) string {
	sum := sha256.Sum256([]byte(path.Base(name)))
	return path.Join(path.Dir(name), "."+hex.EncodeToString(sum[:8])+".loam-new")
}
