package output

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/image"
)

// Lock keeps other builds away from the directory out. It refuses a directory
// that has anything but a build in it. The lock is a file beside the directory.
func Lock(out string) (unlock func(), err error) {
	if entries, err := os.ReadDir(out); err == nil && len(entries) > 0 {
		if _, err := os.Stat(filepath.Join(out, image.ManifestName)); err != nil {
			return nil, hint.With(fmt.Errorf("%s: not empty, and not a build", out),
				"name another directory with --out; a build replaces it whole")
		}
	}

	f, err := os.OpenFile(out+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}

	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: another build is running: %w", out, err)
	}

	return func() { f.Close() }, nil
}

// Replace makes the directory fresh durable and then puts it in the place of
// old, in one step. There need not be an old one.
func Replace(fresh, old string) error {
	if err := syncAll(fresh); err != nil {
		return err
	}
	if _, err := os.Stat(old); errors.Is(err, fs.ErrNotExist) {
		return os.Rename(fresh, old)
	}

	err := unix.Renameat2(unix.AT_FDCWD, fresh, unix.AT_FDCWD, old, unix.RENAME_EXCHANGE)
	if err != nil {
		return fmt.Errorf("put the build in place of %s: %w", old, err)
	}

	return os.RemoveAll(fresh)
}

// syncAll makes what was written to the file system of a directory durable.
func syncAll(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()

	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}

	return nil
}
