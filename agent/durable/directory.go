package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// MkdirAll creates directory name and its parents, with mode 0755. If one is a
// link of the image to a directory that does not exist yet (/opt -> var/opt on
// a fresh state partition), its target is created.
func (d *Dir) MkdirAll(name string) error {
	dir, err := d.open(path.Clean(name))
	switch {
	case err == nil:
		return dir.Close()
	case errors.Is(err, unix.ENOTDIR):
		return fmt.Errorf("make directory %s: a file is in the way", name)
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("make directory %s: %w", name, err)
	}

	resolved, err := d.resolve(name)
	if err != nil {
		return fmt.Errorf("make directory %s: %w", name, err)
	}
	if err := d.MkdirAll(path.Dir(resolved)); err != nil {
		return err
	}
	return d.in("make directory", resolved, func(parent *os.File) error {
		return d.mkdir(parent, resolved)
	})
}

// mkdirAt creates the directory name in dir.
func mkdirAt(dir *os.File, name string) error {
	if err := unix.Mkdirat(int(dir.Fd()), path.Base(name), 0o755); err != nil {
		return err
	}

	made, err := openAt(dir, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	return errors.Join(made.Chmod(0o755), made.Close()) // mkdir(2) applies the umask.
}
