package rootfs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// overlay copies the files below from, if there is such a directory, into the
// tree dir. They belong to root. A file that is there already is an error: it
// would be of a package that should not be in the image.
func overlay(dir, from string) error {
	if from == "" {
		return nil
	}

	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}

		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}

		target := filepath.Join(dir, name)
		if entry.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		if _, err := os.Lstat(target); err == nil {
			return fmt.Errorf("%s: is of a package, too", name)
		}

		info, err := entry.Info()
		if err != nil {
			return err
		}
		if err := copyFile(target, path); err != nil {
			return err
		}
		return os.Chmod(target, info.Mode().Perm())
	})
}
