package durable

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
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

// Dir is a directory tree that is changed durably. It has one writer.
type Dir struct {
	root *os.Root
	hook Hook
	// cut is the hook's error, after which nothing changes any more.
	cut error
	// together are the directories to sync at the end of Together; nil outside.
	together map[string]bool
	// spare makes room for records; nil for no spare.
	spare *Spare
}

// New returns a Dir of root. hook may be nil.
func New(root *os.Root, hook Hook) *Dir {
	if hook == nil {
		hook = func(Step) error { return nil }
	}
	return &Dir{root: root, hook: hook}
}

// Root returns the tree that d changes, for reading.
func (d *Dir) Root() *os.Root { return d.root }

// WriteFile makes name a regular file with these bytes and permission bits, and
// reports whether it had to write. It does not rewrite equal content and mode.
// The parent directory must exist. An error of fsync is final: the kernel has
// dropped the pages, so a second fsync would wrongly succeed (fsync(2)).
func (d *Dir) WriteFile(name string, data []byte, mode fs.FileMode) (bool, error) {
	if d.equal(name, data, mode) {
		return false, nil
	}
	return true, d.withRoom(func() error {
		return d.WriteFrom(name, bytes.NewReader(data), mode)
	})
}

// WriteFrom is WriteFile for a stream; it always writes.
func (d *Dir) WriteFrom(name string, data io.Reader, mode fs.FileMode) error {
	temp := temporary(name)
	if err := d.discard(temp); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}

	err := d.fill(temp, data, mode)
	if err == nil {
		err = d.syncFile(temp)
	}

	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", name, err), d.discard(temp))
	}

	return d.replace(temp, name)
}

// Symlink makes name a symbolic link to target and reports whether it had to.
func (d *Dir) Symlink(target, name string) (bool, error) {
	if have, err := d.root.Readlink(name); err == nil && have == target {
		return false, nil
	}

	made := false
	err := d.withRoom(func() error {
		temp := temporary(name)
		if err := d.discard(temp); err != nil {
			return fmt.Errorf("link %s: %w", name, err)
		}
		if err := d.symlink(target, temp); err != nil {
			return fmt.Errorf("link %s: %w", name, err)
		}

		made = true
		return d.replace(temp, name)
	})
	return made, err
}

// Append adds a line to name, which is created with mode if it does not exist.
// A power cut may leave a part of the line, which readers must skip.
func (d *Dir) Append(name string, line []byte, mode fs.FileMode) error {
	return d.withRoom(func() error { return d.append(name, line, mode) })
}

func (d *Dir) append(name string, line []byte, mode fs.FileMode) error {
	f, err := d.root.OpenFile(name, os.O_RDWR|os.O_APPEND, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return d.WriteFrom(name, bytes.NewReader(append(bytes.Clone(line), '\n')), mode)
	}

	if err != nil {
		return fmt.Errorf("append to %s: %w", name, err)
	}

	defer f.Close()
	if err := d.step(Step{Op: Append, Name: name}); err != nil {
		return err
	}

	text := append(bytes.Clone(line), '\n')
	if !endsLine(f) {
		text = append([]byte{'\n'}, text...)
	}

	if _, err := f.Write(text); err != nil {
		return fmt.Errorf("append to %s: %w", name, err)
	}

	return d.syncFile(name)
}

// endsLine reports whether f is empty or ends with a newline.
func endsLine(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return err == nil
	}
	last := make([]byte, 1)
	_, err = f.ReadAt(last, info.Size()-1)
	return err == nil && last[0] == '\n'
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
	if err := d.root.Remove(name); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return d.SyncDir(path.Dir(name))
}

// RemoveAll deletes name and everything below it. Nothing may refer to it any
// more, as a power cut leaves any part of it. The caller syncs the directory,
// or deletes again at the next start.
func (d *Dir) RemoveAll(name string) error {
	if err := d.step(Step{Op: RemoveAll, Name: name}); err != nil {
		return err
	}
	if err := d.root.RemoveAll(name); err != nil {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}

// Move renames from to name, which must not exist or must be something that
// rename(2) replaces.
func (d *Dir) Move(from, name string) error {
	if err := d.step(Step{Op: Rename, Name: name, From: from}); err != nil {
		return err
	}
	if err := d.root.Rename(from, name); err != nil {
		return fmt.Errorf("move %s to %s: %w", from, name, err)
	}
	return errors.Join(d.SyncDir(path.Dir(name)), d.SyncDir(path.Dir(from)))
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
	return d.sync(Step{Op: SyncDir, Name: name})
}

// Together calls f and then syncs each directory that f changed once. Until
// then a power cut may undo any of the changes, but each one entirely.
func (d *Dir) Together(f func() error) error {
	d.together = map[string]bool{}
	err := f()
	dirs := slices.Sorted(maps.Keys(d.together))
	d.together = nil

	for _, name := range dirs {
		if _, gone := d.root.Stat(name); errors.Is(gone, fs.ErrNotExist) {
			continue
		}
		err = errors.Join(err, d.SyncDir(name))
	}

	return err
}

func (d *Dir) syncFile(name string) error { return d.sync(Step{Op: SyncFile, Name: name}) }

func (d *Dir) sync(s Step) error {
	if err := d.step(s); err != nil {
		return err
	}

	f, err := d.root.Open(s.Name)
	if err != nil {
		return fmt.Errorf("sync %s: %w", s.Name, err)
	}
	defer f.Close()

	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", s.Name, err)
	}

	return nil
}

func (d *Dir) equal(name string, data []byte, mode fs.FileMode) bool {
	info, err := d.root.Lstat(name)
	if err != nil || info.Mode() != mode || info.Size() != int64(len(data)) {
		return false
	}
	have, err := d.root.ReadFile(name)
	return err == nil && bytes.Equal(have, data)
}

// step calls the hook before a change.
func (d *Dir) step(s Step) error {
	if d.cut != nil {
		return d.cut
	}
	err := d.hook(s)
	if !errors.As(err, new(*Fault)) {
		d.cut = err
	}
	return err
}

// discard removes a temporary that a cut or an error has left behind.
func (d *Dir) discard(temp string) error {
	if _, err := d.root.Lstat(temp); d.cut != nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := d.step(Step{Op: Remove, Name: temp}); err != nil {
		return err
	}
	return d.root.Remove(temp)
}

// fill creates the file name with data and the exact mode, not yet synced.
func (d *Dir) fill(name string, data io.Reader, mode fs.FileMode) error {
	if err := d.step(Step{Op: Create, Name: name}); err != nil {
		return err
	}
	create := func() (*os.File, error) {
		return d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	}
	return d.fillBy(create, name, data, mode)
}

// fillBy is fill after its first step, for a file that create opens.
func (d *Dir) fillBy(
	create func() (*os.File, error), name string, data io.Reader, mode fs.FileMode,
) error {
	f, err := create()
	if err != nil {
		return err
	}

	if err := d.step(Step{Op: Write, Name: name}); err != nil {
		return errors.Join(err, f.Close())
	}

	_, err = io.Copy(f, data)
	if err == nil {
		err = f.Chmod(mode) // open(2) applies the umask.
	}

	return errors.Join(err, f.Close())
}

func (d *Dir) symlink(target, name string) error {
	if err := d.step(Step{Op: Symlink, Name: name, From: target}); err != nil {
		return err
	}
	return d.root.Symlink(target, name)
}

// replace durably renames temp to name.
func (d *Dir) replace(temp, name string) error {
	if err := d.rename(temp, name); err != nil {
		return err
	}
	return d.SyncDir(path.Dir(name))
}

// rename is the step at which name changes.
func (d *Dir) rename(temp, name string) error {
	err := d.step(Step{Op: Rename, Name: name, From: temp})
	if err == nil {
		err = d.root.Rename(temp, name)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("rename to %s: %w", name, err), d.discard(temp))
	}
	return nil
}

// temporary returns the name under which a new version of name is written. It
// is in the same directory, hidden, at most as long as a name may be, and has
// no suffix that a daemon reading the directory looks for (.conf, .yaml).
func temporary(name string) string {
	sum := sha256.Sum256([]byte(path.Base(name)))
	return path.Join(path.Dir(name), "."+hex.EncodeToString(sum[:8])+".loam-new")
}

// WriteVolatile is WriteFile for what is worthless after a power cut. It is
// never synced, but is complete at every moment while the kernel runs.
func (d *Dir) WriteVolatile(name string, data []byte, mode fs.FileMode) error {
	temp := temporary(name)
	if err := d.discard(temp); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := d.fill(temp, bytes.NewReader(data), mode); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", name, err), d.discard(temp))
	}
	return d.rename(temp, name)
}
