package rootfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/loam-os/loam/firmware/device"
	"github.com/loam-os/loam/hint"
)

// prune leaves of the firmware in dir what the list has. A line of the list
// that no file is there for is an error: Debian has renamed it.
func prune(dir string, list device.List) error {
	for _, e := range list.Entries {
		if found, _ := filepath.Glob(filepath.Join(dir, e.Pattern)); len(found) == 0 {
			return hint.With(fmt.Errorf("firmware: package %s has no %s", e.Package, e.Pattern),
				"firmware/device/firmware.list names it")
		}
	}

	var dirs []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // no firmware at all
		}
		if err != nil || entry.IsDir() {
			dirs = append(dirs, path)
			return err
		}
		if name, err := filepath.Rel(dir, path); err != nil || list.Has(name) {
			return err
		}
		return os.Remove(path)
	})

	for i := len(dirs) - 1; i >= 0 && err == nil; i-- { // the content of a directory comes after it
		if left, readErr := os.ReadDir(dirs[i]); readErr != nil || len(left) == 0 {
			err = errors.Join(readErr, os.Remove(dirs[i]))
		}
	}

	return err
}
