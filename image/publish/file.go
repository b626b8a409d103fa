package publish

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// writeFile replaces file: temporary, fsync, rename, fsync of the directory.
func writeFile(file string, data []byte, mode os.FileMode) error {
	return replace(file, func(tmp *os.File) error {
		_, err := tmp.Write(data)
		return errors.Join(err, tmp.Chmod(mode))
	})
}

// linkFile gives the file at from its name in the repository in dir as well; on
// another file system, a copy. What is not f never gets the name.
func linkFile(f File, dir, from string) error {
	to := filepath.Join(dir, f.Name)
	tmp := to + ".new"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if os.Link(from, tmp) != nil {
		return f.Copy(to, from)
	}
	defer os.Remove(tmp) // not there any more after the rename

	if err := f.checkAt(tmp); err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}

	return errors.Join(os.Rename(tmp, to), syncDir(filepath.Dir(to)))
}

func replace(file string, write func(*os.File) error) error {
	tmp, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // not there any more after the rename

	if err := errors.Join(write(tmp), tmp.Sync(), tmp.Close()); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}

	return errors.Join(os.Rename(tmp.Name(), file), syncDir(filepath.Dir(file)))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
