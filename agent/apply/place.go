package apply

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/plan"
)

// place brings about what changes, and nothing else. Paths that go are taken
// away before others come: in this order a file can become a directory, and a
// directory a file.
func (e *Executor) place(c change, stop func(error) bool) error {
	changed := map[string]bool{}
	removes := false
	for _, f := range c.plan.Files {
		changed[f.Path] = true
		removes = removes || f.Change == plan.Removed
	}
	if removes {
		if err := e.clear(c.have, c.want); err != nil {
			return err
		}
	}

	if _, err := e.put(generation.Place(c.want), changed, stop); stop(err) {
		return err
	}

	return nil
}

// stopOf says which errors of a path end the change j. A way back goes round
// what cannot be had, as there is no other way to go: that is drift then.
func stopOf(j generation.Journal) func(error) bool {
	if j.Direction() == generation.Revert {
		return Transient
	}
	return func(err error) bool { return err != nil }
}

// put brings about those of placements whose paths are wanted, nil for all, and
// returns the ones that were not as they should be. One that cannot be had does
// not keep it from the others, unless stop says so.
func (e *Executor) put(
	placements []generation.Placement, wanted map[string]bool, stop func(error) bool,
) (did []string, err error) {
	err = e.Node.Together(func() error {
		var errs []error
		for _, p := range placements {
			if wanted != nil && !wanted[p.Path] {
				continue
			}

			changed, err := generation.Put(e.Node, p, e.store().Reader)
			errs = append(errs, err)
			if stop(err) {
				break
			}

			if changed {
				did = append(did, p.Path)
			}
		}

		return errors.Join(errs...)
	})

	return did, err
}

// Transient reports whether err is of a file system as a whole, such as that it
// has no room: it may go another time.
func Transient(err error) bool {
	return slices.ContainsFunc([]error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO},
		func(e error) bool { return errors.Is(err, e) })
}

// placeAll is place without trust in what is there: every path of want is
// looked at, and what a write that was cut off has left goes. A path that is
// the same in both and cannot be had is drift, for Repair to report; stop is
// for the others.
func (e *Executor) placeAll(have, want generation.Manifest, stop func(error) bool) error {
	if err := e.discard(have, want); err != nil {
		return err
	}
	if _, err := e.link(); err != nil {
		return err
	}

	changed := map[string]bool{}
	for _, f := range plan.Diff(have, want, nil).Files {
		changed[f.Path] = true
	}

	if _, err := e.put(generation.Place(want), changed, stop); stop(err) {
		return err
	}
	if _, err := e.put(generation.Place(want), nil, Transient); Transient(err) {
		return err
	}

	return nil
}

// discard is clear, and takes away what a write of either that was cut off has
// left.
func (e *Executor) discard(have, want generation.Manifest) error {
	for _, entry := range slices.Concat(have.Entries, want.Entries) {
		if err := e.Node.Discard(entry.Path[1:]); err != nil {
			return err
		}
	}
	return e.clear(have, want)
}

// clear takes away what have placed and want does not have.
func (e *Executor) clear(have, want generation.Manifest) error {
	if have.Name() == "" {
		return nil
	}
	if _, err := e.removePlaced(have, want, ""); err != nil {
		return err
	}
	return e.removeDirs(have.Dirs, want.Dirs)
}

// removePlaced takes away the paths that are just as m has them and that
// current does not have, those beneath except left alone ("" for none). What
// another wrote over them stays, unless current has something beneath it, and
// so does what the sync of a token writes.
func (e *Executor) removePlaced(m, current generation.Manifest, except string) ([]string, error) {
	wanted := pathsOf(current)
	above := parentsOf(current)
	var removed []string
	for _, p := range generation.Place(m) {
		alone := except != "" && strings.HasPrefix(p.Path, except)
		if alone || wanted[p.Path] || slices.Contains(current.Synced, p.Path) {
			continue
		}

		var did bool
		var err error
		if above[p.Path] {
			did, err = e.clearWay(p.Path)
		} else if generation.Placed(e.Node.Root().FS(), p) {
			did, err = true, e.takeAway(p.Path)
		}

		if err != nil {
			return removed, err
		}

		if did {
			removed = append(removed, p.Path)
		}
	}

	return removed, nil
}

// clearWay removes a managed file or link whose path is to be a directory, and
// reports whether it had to.
func (e *Executor) clearWay(name string) (bool, error) {
	info, err := e.Node.Root().Lstat(name[1:])
	if err != nil || info.IsDir() {
		return false, nil // Put says what is wrong with the path, if anything is.
	}
	return true, e.Node.Remove(name[1:])
}

// repair makes the paths of m what they should be and returns those that were
// not. Paths nil are all of them; the zero Manifest has none.
func (e *Executor) repair(m generation.Manifest, paths []string) ([]string, error) {
	if m.Name() == "" {
		return nil, nil
	}

	linked, err := e.link()
	if err != nil {
		return nil, err
	}

	var wanted map[string]bool
	if paths != nil {
		wanted = map[string]bool{}
		for _, name := range paths {
			wanted[name] = true
		}
	}

	repaired, err := e.put(generation.Place(m), wanted, Transient)
	if linked {
		repaired = append(repaired, generation.Link)
	}

	return repaired, err
}

// link makes /run/loam/current lead to this OS version's current generation,
// and reports whether it had to. On a node /init has done so; after a first
// apply under a plain systemd it is not there.
func (e *Executor) link() (bool, error) {
	name := strings.TrimPrefix(generation.Link, "/")
	if err := e.Node.MkdirAll(path.Dir(name)); err != nil {
		return false, err
	}
	return e.Node.Symlink(generation.CurrentTarget(e.Node.Root().FS(), e.OSVersion), name)
}

// takeAway removes a path that is no longer managed; where the image has
// something of its own there, that comes back.
func (e *Executor) takeAway(name string) error {
	name = strings.TrimPrefix(name, "/")
	info, err := fs.Lstat(e.Image, name)
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

func copyFile(to *durable.Dir, from fs.FS, name string, mode fs.FileMode) error {
	text, err := fs.ReadFile(from, name)
	if err != nil {
		return err
	}
	_, err = to.WriteFile(name, text, mode)
	return err
}

func copyLink(to *durable.Dir, from fs.FS, name string) error {
	target, err := fs.ReadLink(from, name)
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
		if info, err := e.Node.Root().Lstat(dir[1:]); err != nil || !info.IsDir() {
			continue
		}
		err := e.Node.Remove(dir[1:])
		if err != nil && !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, syscall.EBUSY) &&
			!errors.Is(err, syscall.EEXIST) {
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

// parentsOf are the directories above the entries of m.
func parentsOf(m generation.Manifest) map[string]bool {
	parents := map[string]bool{}
	for _, entry := range m.Entries {
		for dir := path.Dir(entry.Path); dir != "/" && !parents[dir]; dir = path.Dir(dir) {
			parents[dir] = true
		}
	}
	return parents
}
