package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// MkdirAll makes directory name and those above it, mode 0755, and returns the
// ones it made, outermost first. A symbolic link to a directory that does not
// exist yet (/opt -> var/opt on a fresh state partition) gets its target made.
func (d *Dir) MkdirAll(name string) ([]string, error) {
	if name == "." || name == "" {
		return nil, nil
	}
	if info, err := d.root.Stat(name); err == nil {
		if !info.IsDir() {
			return nil, fmt.Errorf("make directory %s: a file is in the way", name)
		}
		return nil, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("make directory %s: %w", name, err)
	}
	if target, err := d.root.Readlink(name); err == nil {
		return d.MkdirAll(beside(name, target))
	}
	made, err := d.MkdirAll(path.Dir(name))
	if err != nil {
		return made, err
	}
	return append(made, name), d.mkdir(name)
}

func (d *Dir) mkdir(name string) error {
	if err := d.step("make directory " + name); err != nil {
		return err
	}
	if err := d.root.Mkdir(name, 0o755); err != nil {
		return fmt.Errorf("make directory %s: %w", name, err)
	}
	if err := d.root.Chmod(name, 0o755); err != nil { // mkdir(2) applies the umask.
		return fmt.Errorf("make directory %s: %w", name, err)
	}
	return d.SyncDir(path.Dir(name))
}

// AddDir makes a directory with its parents beneath top, for many of one tree:
// the caller syncs each directory of the tree once, after the last change in it.
func (d *Dir) AddDir(top, name string) error {
	if name == top {
		return nil
	}
	if err := d.AddDir(top, path.Dir(name)); err != nil {
		return err
	}
	if err := d.step("add directory " + name); err != nil {
		return err
	}
	if err := d.root.Mkdir(name, 0o755); errors.Is(err, fs.ErrExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("make directory %s: %w", name, err)
	}
	if err := d.root.Chmod(name, 0o755); err != nil { // mkdir(2) applies the umask.
		return fmt.Errorf("make directory %s: %w", name, err)
	}
	return nil
}

// Link makes the new name a hard link to the file old. The caller syncs the
// directory.
func (d *Dir) Link(old, name string) error {
	if err := d.step("hard link " + name); err != nil {
		return err
	}
	if err := d.root.Link(old, name); err != nil {
		return fmt.Errorf("hard link %s: %w", name, err)
	}
	return nil
}

// beside is what a link name with this target refers to, relative to the root.
func beside(name, target string) string {
	if strings.HasPrefix(target, "/") {
		return strings.TrimPrefix(path.Clean(target), "/")
	}
	return path.Join(path.Dir(name), target)
}
