package rootfs

import (
	"debug/buildinfo"
	"fmt"
	"io/fs"
	"path/filepath"
)

// GoPrograms returns the paths of the programs in a root tree that Go has
// built, sorted. They say which modules they are made of.
func (r Root) GoPrograms() ([]string, error) {
	var programs []string
	err := filepath.WalkDir(r.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}

		info, err := entry.Info()
		if err != nil {
			return err
		}
		if info.Mode()&0o111 == 0 {
			return nil
		}

		if _, err := buildinfo.ReadFile(path); err == nil {
			programs = append(programs, path)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("find the Go programs of the root tree: %w", err)
	}

	return programs, nil
}
