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

// Dir is a directory tree that is changed durably. It has one writer. Other
// processes may change its directories: what it writes and removes is in the
// directory of that name, and never behind a link but one of [Dir.WithImage].
type Dir struct {
	root *os.Root
	hook Hook
	// image has the links that are followed; nil for none.
	image fs.FS
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
	return true, d.withRoom(
		func() error { return d.WriteFrom(name, bytes.NewReader(data), mode) },
		func() error { return d.writeInSpare(name, data, mode) },
	)
}

// WriteFrom is WriteFile for a stream; it always writes.
func (d *Dir) WriteFrom(name string, data io.Reader, mode fs.FileMode) error {
	return d.write(name, data, mode, true)
}

// WriteVolatile is WriteFile for what is worthless after a power cut. It is
// never synced, but is complete at every moment while the kernel runs.
func (d *Dir) WriteVolatile(name string, data []byte, mode fs.FileMode) error {
	return d.write(name, bytes.NewReader(data), mode, false)
}

func (d *Dir) write(name string, data io.Reader, mode fs.FileMode, sync bool) error {
	dir, err := d.open(path.Dir(name))
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	defer dir.Close()

	temp := temporary(name)
	if err := d.discard(dir, temp); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := d.fill(dir, temp, data, mode, sync); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", name, err), d.discard(dir, temp))
	}

	if err := d.rename(dir, temp, name); err != nil || !sync {
		return err
	}
	return d.syncDir(dir, path.Dir(name))
}

// Symlink makes name a symbolic link to target and reports whether it had to.
func (d *Dir) Symlink(target, name string) (bool, error) {
	if have, err := d.root.Readlink(name); err == nil && have == target {
		return false, nil
	}

	err := d.withRoom(func() error { return d.symlink(target, name) }, nil)
	return err == nil, err
}

func (d *Dir) symlink(target, name string) error {
	dir, err := d.open(path.Dir(name))
	if err != nil {
		return fmt.Errorf("link %s: %w", name, err)
	}
	defer dir.Close()

	temp := temporary(name)
	if err := d.discard(dir, temp); err != nil {
		return fmt.Errorf("link %s: %w", name, err)
	}

	err = d.step(Step{Op: Symlink, Name: temp, From: target})
	if err == nil {
		err = unix.Symlinkat(target, int(dir.Fd()), path.Base(temp))
	}
	if err != nil {
		return fmt.Errorf("link %s: %w", name, err)
	}

	if err := d.rename(dir, temp, name); err != nil {
		return err
	}
	return d.syncDir(dir, path.Dir(name))
}

// Append adds a line to name, which is created with mode if it does not exist.
// A power cut may leave a part of the line, which readers must skip.
func (d *Dir) Append(name string, line []byte, mode fs.FileMode) error {
	return d.withRoom(
		func() error { return d.append(name, line, mode) },
		func() error { return d.appendInSpare(name, line, mode) },
	)
}

// appendInSpare replaces the file by one with the line.
func (d *Dir) appendInSpare(name string, line []byte, mode fs.FileMode) error {
	text, err := d.root.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil && len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(text, '\n')
	}
	text = append(append(text, line...), '\n')
	return d.writeInSpare(name, text, mode)
}

func (d *Dir) append(name string, line []byte, mode fs.FileMode) error {
	dir, err := d.open(path.Dir(name))
	if err != nil {
		return fmt.Errorf("append to %s: %w", name, err)
	}
	defer dir.Close()

	f, err := openAt(dir, name, unix.O_RDWR|unix.O_APPEND)
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

	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("append to %s: %w", name, err)
	}
	if _, err := f.Write(text); err != nil {
		_ = f.Truncate(info.Size()) // Best effort: a full disk leaves a part of the line.
		return fmt.Errorf("append to %s: %w", name, err)
	}

	return d.sync(f, Step{Op: SyncFile, Name: name})
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
	if err := d.removeAll(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}

func (d *Dir) removeAll(name string) error {
	dir, err := d.open(path.Dir(name))
	if err != nil {
		return err
	}
	defer dir.Close()

	parent, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()))
	if err != nil {
		return err
	}
	return errors.Join(parent.RemoveAll(path.Base(name)), parent.Close())
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

// syncDir is SyncDir for the open directory dir, called name.
func (d *Dir) syncDir(dir *os.File, name string) error {
	if d.together != nil {
		d.together[name] = true
		return nil
	}
	return d.sync(dir, Step{Op: SyncDir, Name: name})
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

// syncFile makes the file name durable.
func (d *Dir) syncFile(name string) error {
	dir, err := d.open(path.Dir(name))
	if err != nil {
		return fmt.Errorf("sync %s: %w", name, err)
	}
	defer dir.Close()

	f, err := openAt(dir, name, unix.O_RDONLY)
	if err != nil {
		return fmt.Errorf("sync %s: %w", name, err)
	}
	defer f.Close()
	return d.sync(f, Step{Op: SyncFile, Name: name})
}

func (d *Dir) sync(f *os.File, s Step) error {
	if err := d.step(s); err != nil {
		return err
	}
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

	f, err := d.FS().Open(name)
	if err != nil {
		return false
	}
	defer f.Close()

	// It may be a larger file by now.
	have, err := io.ReadAll(io.LimitReader(f, int64(len(data))+1))
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

// discard removes a temporary that a cut or an error has left behind in dir.
func (d *Dir) discard(dir *os.File, temp string) error {
	if d.cut != nil || !existsAt(dir, temp) {
		return nil
	}
	if err := d.step(Step{Op: Remove, Name: temp}); err != nil {
		return err
	}
	return removeAt(dir, temp)
}

// fill creates the file name in dir with data and the exact mode.
func (d *Dir) fill(
	dir *os.File, name string, data io.Reader, mode fs.FileMode, sync bool,
) error {
	if err := d.step(Step{Op: Create, Name: name}); err != nil {
		return err
	}

	f, err := openAt(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
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
	if err == nil && sync {
		err = d.sync(f, Step{Op: SyncFile, Name: name})
	}

	return errors.Join(err, f.Close())
}

// rename is the step at which name changes. Both names are in dir.
func (d *Dir) rename(dir *os.File, temp, name string) error {
	err := d.step(Step{Op: Rename, Name: name, From: temp})
	if err == nil {
		fd := int(dir.Fd())
		err = unix.Renameat(fd, path.Base(temp), fd, path.Base(name))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("rename to %s: %w", name, err), d.discard(dir, temp))
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
