package mount

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrMounted means that an entry of a directory is a mount point, which [Empty]
// does not touch.
var ErrMounted = errors.New("something is mounted there: left alone")

// Empty deletes everything in the directory name, durably, and nothing on
// another mount. The kernel itself refuses to enter a mount (openat2(2),
// RESOLVE_NO_XDEV, which covers bind mounts too), and to follow a link in name,
// which a pod may have put there. An absent directory is empty.
func Empty(name string) error {
	fd, err := unix.Openat2(unix.AT_FDCWD, name, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS,
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("empty %s: %w", name, err)
	}

	dir := os.NewFile(uintptr(fd), name)
	defer dir.Close()

	if err := errors.Join(emptyOpen(dir, name)...); err != nil {
		return errors.Join(err, dir.Sync())
	}
	if err := dir.Sync(); err != nil {
		return fmt.Errorf("empty %s: %w", name, err)
	}
	return nil
}

// emptyOpen empties the open directory dir, called name. It goes on after an
// entry that it cannot delete.
func emptyOpen(dir *os.File, name string) []error {
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return []error{fmt.Errorf("empty %s: %w", name, err)}
	}

	var errs []error
	for _, entry := range entries {
		errs = append(errs, deleteEntry(dir, entry, filepath.Join(name, entry.Name()))...)
	}
	return errs
}

func deleteEntry(dir *os.File, entry fs.DirEntry, name string) []error {
	flags := 0
	if entry.IsDir() {
		child, err := enter(dir, entry.Name())
		if err != nil {
			return []error{fmt.Errorf("delete %s: %w", name, err)}
		}

		// A directory that still has an entry cannot be deleted.
		errs := emptyOpen(child, name)
		errs = append(errs, child.Close())
		if errors.Join(errs...) != nil {
			return errs
		}
		flags = unix.AT_REMOVEDIR
	}

	err := unix.Unlinkat(int(dir.Fd()), entry.Name(), flags)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return []error{fmt.Errorf("delete %s: %w", name, err)}
	}
	return nil
}

// enter opens the directory name in dir; [ErrMounted] if it is a mount point.
func enter(dir *os.File, name string) (*os.File, error) {
	how := unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_XDEV | unix.RESOLVE_BENEATH,
	}
	fd, err := unix.Openat2(int(dir.Fd()), name, &how)
	if errors.Is(err, unix.EXDEV) {
		return nil, ErrMounted
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}
