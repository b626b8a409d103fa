package mount

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Empty deletes all that is in the directory name, durably, and nothing of another
// mount: the kernel itself goes into none (openat2(2), RESOLVE_NO_XDEV, which
// holds of bind mounts too). A directory that is not there is empty.
func Empty(name string) error {
	dir, err := os.OpenFile(name, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("empty %s: %w", name, err)
	}
	defer dir.Close()
	if err := errors.Join(emptyDir(dir, name)...); err != nil {
		return errors.Join(err, dir.Sync())
	}
	if err := dir.Sync(); err != nil {
		return fmt.Errorf("empty %s: %w", name, err)
	}
	return nil
}

// emptyDir is Empty for an open directory called name. One entry that stays does
// not keep it from the others.
func emptyDir(dir *os.File, name string) []error {
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return []error{fmt.Errorf("empty %s: %w", name, err)}
	}
	var errs []error
	for _, e := range entries {
		errs = append(errs, deleteEntry(dir, e, filepath.Join(name, e.Name()))...)
	}
	return errs
}

func deleteEntry(dir *os.File, e fs.DirEntry, name string) []error {
	flags := 0
	if e.IsDir() {
		child, err := enter(dir, e.Name())
		if err != nil {
			return []error{fmt.Errorf("delete %s: %w", name, err)}
		}
		errs := emptyDir(child, name)
		if errs = append(errs, child.Close()); errors.Join(errs...) != nil {
			return errs // It cannot be empty.
		}
		flags = unix.AT_REMOVEDIR
	}
	if err := unix.Unlinkat(int(dir.Fd()), e.Name(), flags); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return []error{fmt.Errorf("delete %s: %w", name, err)}
	}
	return nil
}

var errMounted = errors.New("something is mounted there: left alone")

func enter(dir *os.File, name string) (*os.File, error) {
	how := unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_XDEV | unix.RESOLVE_BENEATH}
	fd, err := unix.Openat2(int(dir.Fd()), name, &how)
	if errors.Is(err, unix.EXDEV) {
		return nil, errMounted
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}
