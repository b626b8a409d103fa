package durable

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// steps changes what is in open directories, one [Step] at a time. Names are
// relative to the root; the open directory is that of the name.
type steps struct {
	hook Hook
	// cut is the hook's error, after which nothing changes any more.
	cut error
	// together are the directories to sync at the end of [Dir.Together]; nil
	// outside.
	together map[string]bool
}

// step calls the hook before a change.
func (s *steps) step(next Step) error {
	if s.cut != nil {
		return s.cut
	}
	err := s.hook(next)
	if !errors.As(err, new(*Fault)) {
		s.cut = err
	}
	return err
}

// write makes name a file with the data, durably.
func (s *steps) write(dir *os.File, name string, data io.Reader, mode fs.FileMode) error {
	if err := s.replace(dir, name, data, mode, true); err != nil {
		return err
	}
	return s.syncDir(dir, path.Dir(name))
}

// replace makes name a file with the data. sync makes the content durable before
// it has the name.
func (s *steps) replace(
	dir *os.File, name string, data io.Reader, mode fs.FileMode, sync bool,
) error {
	temp := temporary(name)
	if err := s.discard(dir, temp); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := s.fill(dir, temp, data, mode, sync); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", name, err), s.discard(dir, temp))
	}
	return s.rename(dir, temp, name)
}

// writeInSpare is write into a piece of the spare.
func (s *steps) writeInSpare(
	dir *os.File, name string, data []byte, mode fs.FileMode, spare *Spare,
) error {
	if !spare.has(len(data)) {
		return unix.ENOSPC
	}

	temp := temporary(name)
	if err := s.discard(dir, temp); err != nil {
		return err
	}
	if err := s.fillPiece(dir, temp, data, mode, spare); err != nil {
		return errors.Join(err, s.discard(dir, temp))
	}
	if err := s.rename(dir, temp, name); err != nil {
		return err
	}
	return s.syncDir(dir, path.Dir(name))
}

// symlink makes name a symbolic link to target.
func (s *steps) symlink(dir *os.File, target, name string) error {
	temp := temporary(name)
	if err := s.discard(dir, temp); err != nil {
		return fmt.Errorf("link %s: %w", name, err)
	}

	err := s.step(Step{Op: Symlink, Name: temp, From: target})
	if err == nil {
		err = unix.Symlinkat(target, int(dir.Fd()), path.Base(temp))
	}
	if err != nil {
		return fmt.Errorf("link %s: %w", name, err)
	}

	if err := s.rename(dir, temp, name); err != nil {
		return err
	}
	return s.syncDir(dir, path.Dir(name))
}

// append adds a line to the file name, or makes it.
func (s *steps) append(dir *os.File, name string, line []byte, mode fs.FileMode) error {
	f, err := openAt(dir, name, unix.O_RDWR|unix.O_APPEND)
	if errors.Is(err, fs.ErrNotExist) {
		return s.write(dir, name, bytes.NewReader(append(bytes.Clone(line), '\n')), mode)
	}
	if err != nil {
		return fmt.Errorf("append to %s: %w", name, err)
	}
	defer f.Close()

	if err := s.step(Step{Op: Append, Name: name}); err != nil {
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

	return s.sync(f, Step{Op: SyncFile, Name: name})
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

// mkdir makes the directory name.
func (s *steps) mkdir(dir *os.File, name string) error {
	if err := s.step(Step{Op: Mkdir, Name: name}); err != nil {
		return err
	}
	if err := mkdirAt(dir, name); err != nil {
		return fmt.Errorf("make directory %s: %w", name, err)
	}
	return s.syncDir(dir, path.Dir(name))
}

// syncDir makes the entries of dir, called name, durable: at the end of
// [Dir.Together], if that runs.
func (s *steps) syncDir(dir *os.File, name string) error {
	if s.together != nil {
		s.together[name] = true
		return nil
	}
	return s.sync(dir, Step{Op: SyncDir, Name: name})
}

// syncFile makes the file name durable.
func (s *steps) syncFile(dir *os.File, name string) error {
	f, err := openAt(dir, name, unix.O_RDONLY)
	if err != nil {
		return fmt.Errorf("sync %s: %w", name, err)
	}
	defer f.Close()
	return s.sync(f, Step{Op: SyncFile, Name: name})
}

func (s *steps) sync(f *os.File, next Step) error {
	if err := s.step(next); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", next.Name, err)
	}
	return nil
}

// discard removes a temporary that a cut or an error has left behind in dir.
func (s *steps) discard(dir *os.File, temp string) error {
	if s.cut != nil || !existsAt(dir, temp) {
		return nil
	}
	if err := s.step(Step{Op: Remove, Name: temp}); err != nil {
		return err
	}
	return removeAt(dir, temp)
}

// fill creates the file name in dir with data and the exact mode.
func (s *steps) fill(
	dir *os.File, name string, data io.Reader, mode fs.FileMode, sync bool,
) error {
	if err := s.step(Step{Op: Create, Name: name}); err != nil {
		return err
	}

	f, err := openAt(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return err
	}
	if err := s.step(Step{Op: Write, Name: name}); err != nil {
		return errors.Join(err, f.Close())
	}

	_, err = io.Copy(f, data)
	if err == nil {
		err = f.Chmod(mode) // open(2) applies the umask.
	}
	if err == nil && sync {
		err = s.sync(f, Step{Op: SyncFile, Name: name})
	}

	return errors.Join(err, f.Close())
}

// fillPiece is fill for a piece of the spare, which is as good as a new file: what
// it has is not read.
func (s *steps) fillPiece(
	dir *os.File, temp string, data []byte, mode fs.FileMode, spare *Spare,
) error {
	if err := s.step(Step{Op: Create, Name: temp}); err != nil {
		return err
	}
	if err := spare.lend(dir, temp); err != nil {
		return err
	}
	f, err := openAt(dir, temp, unix.O_WRONLY)
	if err != nil {
		return err
	}
	if err := s.step(Step{Op: Write, Name: temp}); err != nil {
		return errors.Join(err, f.Close())
	}

	_, err = f.Write(data)
	if err == nil {
		err = f.Truncate(int64(len(data)))
	}
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = s.sync(f, Step{Op: SyncFile, Name: temp})
	}
	return errors.Join(err, f.Close())
}

// rename is the step at which name changes. Both names are in dir.
func (s *steps) rename(dir *os.File, temp, name string) error {
	err := s.step(Step{Op: Rename, Name: name, From: temp})
	if err == nil {
		fd := int(dir.Fd())
		err = unix.Renameat(fd, path.Base(temp), fd, path.Base(name))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("rename to %s: %w", name, err), s.discard(dir, temp))
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
