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

// files changes the paths of the node that generations manage. It knows nothing
// of units, and of the journal only what its caller says.
type files struct {
	// node is the running root directory, image the root directory of the image
	// without anything mounted over it.
	node  *durable.Dir
	image fs.FS
	// state is /var/lib/loam, with the generations in store.
	state *durable.Dir
	store *generation.Store
	// osVersion is the running image's IMAGE_VERSION.
	osVersion string
}

// place brings about what changes, and nothing else. Paths that go are taken
// away before others come: in this order a file can become a directory, and a
// directory a file.
func (f files) place(c change, stop func(error) bool) error {
	changed := map[string]bool{}
	removes := false
	for _, file := range c.plan.Files {
		changed[file.Path] = true
		removes = removes || file.Change == plan.Removed
	}
	if removes {
		if err := f.removeOld(c.have, c.want); err != nil {
			return err
		}
	}

	if _, err := f.put(generation.Place(c.want), changed, stop); stop(err) {
		return err
	}

	return nil
}

// put brings about those of placements whose paths are wanted, nil for all, and
// returns the ones that were not as they should be. One that cannot be had does
// not keep it from the others, unless stop says so.
func (f files) put(
	placements []generation.Placement, wanted map[string]bool, stop func(error) bool,
) (did []string, err error) {
	err = f.node.Together(func() error {
		var errs []error
		for _, p := range placements {
			if wanted != nil && !wanted[p.Path] {
				continue
			}

			changed, err := generation.Put(f.node, p, f.store.Reader)
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

// placeAll is place without trust in what is there: every path of want is
// looked at, and what a write that was cut off has left goes. A path that is
// the same in both and cannot be had is drift, for Repair to report; stop is
// for the others.
func (f files) placeAll(have, want generation.Manifest, stop func(error) bool) error {
	if err := f.clean(have, want); err != nil {
		return err
	}
	if _, err := f.linkCurrent(); err != nil {
		return err
	}

	changed := map[string]bool{}
	for _, file := range plan.Diff(have, want, nil).Files {
		changed[file.Path] = true
	}

	if _, err := f.put(generation.Place(want), changed, stop); stop(err) {
		return err
	}
	if _, err := f.put(generation.Place(want), nil, Transient); Transient(err) {
		return err
	}

	return nil
}

// clean is clear, and takes away what a write of either that was cut off has
// left.
func (f files) clean(have, want generation.Manifest) error {
	for _, entry := range slices.Concat(have.Entries, want.Entries) {
		if err := f.node.Discard(entry.Path[1:]); err != nil {
			return err
		}
	}
	return f.removeOld(have, want)
}

// removeOld takes away what have placed and want does not have.
func (f files) removeOld(have, want generation.Manifest) error {
	if have.Name() == "" {
		return nil
	}
	if _, err := f.removePlaced(have, want, ""); err != nil {
		return err
	}
	return f.removeDirs(have.Dirs, want.Dirs)
}

// removePlaced takes away the paths that are just as m has them and that
// current does not have, those beneath except left alone ("" for none). What
// another wrote over them stays, unless current has something beneath it, and
// so does what the sync of a token writes.
func (f files) removePlaced(m, current generation.Manifest, except string) ([]string, error) {
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
			did, err = f.removeObstacle(p.Path)
		} else if generation.Placed(f.node.Root().FS(), p) {
			did, err = true, f.removePath(p.Path)
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

// removeObstacle removes a managed file or link whose path is to be a directory, and
// reports whether it had to.
func (f files) removeObstacle(name string) (bool, error) {
	info, err := f.node.Root().Lstat(name[1:])
	if err != nil || info.IsDir() {
		return false, nil // Put says what is wrong with the path, if anything is.
	}
	return true, f.node.Remove(name[1:])
}

// repair makes the paths of m what they should be and returns those that were
// not. Paths nil are all of them; the zero Manifest has none.
func (f files) repair(m generation.Manifest, paths []string) ([]string, error) {
	if m.Name() == "" {
		return nil, nil
	}

	linked, err := f.linkCurrent()
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

	repaired, err := f.put(generation.Place(m), wanted, Transient)
	if linked {
		repaired = append(repaired, generation.Link)
	}

	return repaired, err
}

// linkCurrent makes /run/loam/current lead to this OS version's current generation,
// and reports whether it had to. On a node /init has done so; after a first
// apply under a plain systemd it is not there.
func (f files) linkCurrent() (bool, error) {
	name := strings.TrimPrefix(generation.Link, "/")
	if err := f.node.MkdirAll(path.Dir(name)); err != nil {
		return false, err
	}
	return f.node.Symlink(generation.CurrentTarget(f.node.Root().FS(), f.osVersion), name)
}

// removePath removes a path that is no longer managed; where the image has
// something of its own there, that comes back.
func (f files) removePath(name string) error {
	name = strings.TrimPrefix(name, "/")
	info, err := fs.Lstat(f.image, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = f.node.Remove(name)
	case err != nil:
	case info.Mode().IsRegular():
		err = copyFile(f.node, f.image, name, info.Mode())
	case info.Mode()&fs.ModeSymlink != 0:
		err = copyLink(f.node, f.image, name)
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
func (f files) removeDirs(have, want []string) error {
	for _, dir := range slices.Backward(slices.Sorted(slices.Values(have))) {
		if slices.Contains(want, dir) {
			continue
		}
		if info, err := f.node.Root().Lstat(dir[1:]); err != nil || !info.IsDir() {
			continue
		}
		err := f.node.Remove(dir[1:])
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

// osVersionName is the file that names the OS version that ran last.
const osVersionName = "os-version"

// removeStale takes away what the OS version that ran last placed outside of
// /etc, which is made anew at each boot: after an update or a fallback of the
// OS, its configuration finds what the other one left. Only what is exactly as
// that generation had it goes. Under the same OS version there is nothing to
// do.
func (f files) removeStale(current generation.Manifest) ([]string, error) {
	text, err := f.state.Root().ReadFile(osVersionName)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the last OS version: %w", err)
	}

	last := strings.TrimSpace(string(text))
	if last == f.osVersion {
		return nil, nil
	}

	var removed []string
	if last != "" {
		removed, err = f.removeOther(last, current)
		if err != nil {
			return removed, err
		}
	}

	_, err = f.state.WriteFile(osVersionName, []byte(f.osVersion+"\n"), 0o644)
	return removed, err
}

// removeOther is removeStale for the generation that osVersion has as its
// current one, if it has one.
func (f files) removeOther(osVersion string, current generation.Manifest) ([]string, error) {
	other, ok, err := f.store.Current(osVersion)
	if errors.Is(err, generation.ErrTorn) || err == nil && !ok {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return f.removePlaced(other, current, "/etc/")
}

// removeAll takes away what generations have placed: of the current one every
// path, whatever is there now, of the others what is just as they have it. One
// path that stays does not keep it from the others.
func (f files) removeAll(current generation.Manifest, all []generation.Manifest) error {
	var errs []error
	for _, m := range all {
		for _, p := range generation.Place(m) {
			name := strings.TrimPrefix(p.Path, "/")
			errs = append(errs, f.node.Discard(name))
			info, err := f.node.Root().Lstat(name)
			if err != nil || info.IsDir() ||
				m.Name() != current.Name() && !generation.Placed(f.node.Root().FS(), p) {
				continue
			}
			errs = append(errs, f.removePath(p.Path))
		}
		errs = append(errs, f.removeDirs(m.Dirs, nil))
	}

	return errors.Join(errs...)
}

// stopOf says which errors of a path end the change j. A way back goes round
// what cannot be had, as there is no other way to go: that is drift then.
func stopOf(j generation.Journal) func(error) bool {
	if j.Direction() == generation.Revert {
		return Transient
	}
	return func(err error) bool { return err != nil }
}

// Transient reports whether err is of a file system as a whole, such as that it
// has no room: it may go another time.
func Transient(err error) bool {
	return slices.ContainsFunc([]error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO},
		func(e error) bool { return errors.Is(err, e) })
}
