package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// MkdirAll creates directory name and its parents, with mode 0755. If one is a
// symbolic link to a directory that does not exist yet (/opt -> var/opt on a
// fresh state partition), its target is created.
func (d *Dir) MkdirAll(name string) error {
	if name == "." || name == "" {
		return nil
	}

	if info, err := d.root.Stat(name); err == nil {
		if !info.IsDir() {
			return fmt.Errorf("make directory %s: a file is in the way", name)
		}
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("make directory %s: %w", name, err)
	}

	if target, err := d.root.Readlink(name); err == nil {
		return d.MkdirAll(beside(name, target))
	}
	if err := d.MkdirAll(path.Dir(name)); err != nil {
		return err
	}
	if err := d.mkdir(name); err != nil {
		return err
	}

	return d.SyncDir(path.Dir(name))
}

func (d *Dir) mkdir(name string) error {
	if err := d.step(Step{Op: Mkdir, Name: name}); err != nil {
		return err
	}
	if err := d.root.Mkdir(name, 0o755); err != nil {
		return fmt.Errorf("make directory %s: %w", name, err)
	}
	if err := d.root.Chmod(name, 0o755); err != nil { // mkdir(2) applies the umask.
		return fmt.Errorf("make directory %s: %w", name, err)
	}
	return nil
}

// beside returns what a link name with this target refers to, relative to the
// root.
func beside(name, target string) string {
	if strings.HasPrefix(target, "/") {
		return strings.TrimPrefix(path.Clean(target), "/")
	}
	return path.Join(path.Dir(name), target)
}
