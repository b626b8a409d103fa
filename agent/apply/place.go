package apply

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/generation"
)

// place brings the files and links of want about on the node and takes those
// of have away that want does not have.
func (e *Executor) place(have, want generation.Manifest) error {
	if _, err := e.repair(want); err != nil {
		return err
	}
	wanted := pathsOf(want)
	for _, entry := range have.Entries {
		if wanted[entry.Path] {
			continue
		}
		if err := e.takeAway(entry.Path); err != nil {
			return err
		}
	}
	return e.removeDirs(have.Dirs, want.Dirs)
}

// repair makes every path of m what it should be and returns those that were
// not. The zero Manifest has no paths.
func (e *Executor) repair(m generation.Manifest) ([]string, error) {
	if m.Name() == "" {
		return nil, nil
	}
	if err := e.link(); err != nil {
		return nil, err
	}
	content, err := e.store().Content(m.Name())
	if err != nil {
		return nil, err
	}
	defer content.Close()
	var repaired []string
	for _, p := range generation.Place(m) {
		did, err := generation.Put(e.Node, p, content)
		if err != nil {
			return repaired, err
		}
		if did {
			repaired = append(repaired, p.Path)
		}
	}
	return repaired, nil
}

// link makes /run/loam/current lead to this OS version's current generation.
// On a node /init has done so; after a first apply under a plain systemd it is
// not there.
func (e *Executor) link() error {
	name := strings.TrimPrefix(generation.Link, "/")
	if _, err := e.Node.MkdirAll(path.Dir(name)); err != nil {
		return err
	}
	_, err := e.Node.Symlink(path.Join(generation.Dir, "os", e.OSVersion, "current"), name)
	return err
}

// takeAway removes a path that is no longer managed; where the image has
// something of its own there, that comes back.
func (e *Executor) takeAway(name string) error {
	name = strings.TrimPrefix(name, "/")
	info, err := e.Image.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = e.Node.Remove(name)
	case err != nil:
	case info.Mode().IsRegular():
		err = copyFile(e.Node, e.Image, name, info.Mode())
	case info.Mode()&fs.ModeSymlink != 0:
		err = copyLink(e.Node, e.Image, name)
	}
	if err != nil {
		return fmt.Errorf("take away %s: %w", name, err)
	}
	return nil
}

func copyFile(to *durable.Dir, from *os.Root, name string, mode fs.FileMode) error {
	text, err := from.ReadFile(name)
	if err != nil {
		return err
	}
	_, err = to.WriteFile(name, text, mode)
	return err
}

func copyLink(to *durable.Dir, from *os.Root, name string) error {
	target, err := from.Readlink(name)
	if err != nil {
		return err
	}
	_, err = to.Symlink(target, name)
	return err
}

// removeDirs removes the directories of have that want does not need, innermost
// first, if nothing else has put something there.
func (e *Executor) removeDirs(have, want []string) error {
	for _, dir := range slices.Backward(slices.Sorted(slices.Values(have))) {
		if slices.Contains(want, dir) {
			continue
		}
		err := e.Node.Remove(dir[1:])
		if err != nil && !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, syscall.EBUSY) && !errors.Is(err, syscall.EEXIST) {
			return err
		}
	}
	return nil
}

func pathsOf(m generation.Manifest) map[string]bool {
	paths := make(map[string]bool, len(m.Entries))
	for _, entry := range m.Entries {
		paths[entry.Path] = true
	}
	return paths
}
