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

// place brings the changed files of c to the node, and touches nothing else. It
// removes paths before it adds others, so that a file can become a directory
// and a directory a file.
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

// put makes the wanted paths what placements say, or all of them if wanted is
// nil. It returns the paths that were different. An error of one path ends it
// only if stop reports true.
func (f files) put(
	placements []generation.Placement, wanted map[string]bool, stop func(error) bool,
) (did []string, err error) {
	err = f.node.Together(func() error {
		var errs []error
		reached := map[string]bool{}
		for _, p := range placements {
			if wanted != nil && !wanted[p.Path] {
				continue
			}

			var err error
			if dir := path.Dir(p.Path); !reached[dir] {
				err = generation.Reach(f.node, p.Path)
				reached[dir] = err == nil
			}

			changed := false
			if err == nil {
				changed, err = generation.Put(f.node, p, f.store.Reader)
			}
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

// placeAll is like place, but does not trust what is on the node. It checks
// every path of want, and removes what interrupted writes have left. An error
// of a path that is the same in have and want is drift, which Repair reports;
// stop decides about the errors of the others.
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

// clean removes what interrupted writes of have or want have left, and then
// what removeOld removes.
func (f files) clean(have, want generation.Manifest) error {
	for _, entry := range slices.Concat(have.Entries, want.Entries) {
		if err := f.node.Discard(entry.Path[1:]); err != nil && !behindLink(err) {
			return err
		}
	}
	return f.removeOld(have, want)
}

// removeOld removes the paths of have that want does not have.
func (f files) removeOld(have, want generation.Manifest) error {
	if have.Name() == "" {
		return nil
	}
	if _, err := f.removePlaced(have, want, ""); err != nil {
		return err
	}
	return f.removeDirs(have.Dirs, want.Dirs)
}

// removePlaced removes the paths of m that current does not have, except those
// with the prefix except ("" if none). It leaves a path alone if its content
// is no longer as m had it, unless current needs a directory there, if a token
// sync writes it, or if it leads somewhere else by now.
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
		} else if generation.Placed(f.node.FS(), p) {
			did = true
			err = f.removePath(p.Path)
		}

		if behindLink(err) {
			continue
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

// behindLink reports whether nothing was removed because a directory was
// replaced by a link: what it leads to is not what was placed.
func behindLink(err error) bool {
	_, is := errors.AsType[*durable.LinkError](err)
	return is
}

// removeObstacle removes a managed file or link where a directory must come,
// and reports whether there was one.
func (f files) removeObstacle(name string) (bool, error) {
	info, err := f.node.Root().Lstat(name[1:])
	if err != nil || info.IsDir() {
		return false, nil // If the path is wrong, Put returns the error.
	}
	return true, f.node.Remove(name[1:])
}

// repair makes the given paths of m what they should be, or all paths if paths
// is nil, and returns the ones that were different. The zero Manifest has no
// paths.
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

// linkCurrent makes /run/loam/current lead to the current generation of this OS
// version, and reports whether it had to. On a node, /init has made the link;
// under a plain systemd it is absent until the first apply.
func (f files) linkCurrent() (bool, error) {
	name := strings.TrimPrefix(generation.Link, "/")
	if err := f.node.MkdirAll(path.Dir(name)); err != nil {
		return false, err
	}
	return f.node.Symlink(generation.CurrentTarget(f.node.FS(), f.osVersion), name)
}

// removePath removes a path that is no longer managed. If the image has a file
// or link at this path, it restores that.
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
		if err != nil && !behindLink(err) && !errors.Is(err, syscall.ENOTEMPTY) &&
			!errors.Is(err, syscall.EBUSY) && !errors.Is(err, syscall.EEXIST) {
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

// parentsOf returns the directories above the entries of m.
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

// removeStale removes what the OS version that ran last placed outside of /etc,
// after an update or a fallback of the OS. (/etc begins again at each boot.) It
// removes only what is exactly as that generation had it. If the OS version is
// the same, there is nothing to do.
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

// removeOther is removeStale for the current generation of osVersion, if it has
// one.
func (f files) removeOther(osVersion string, current generation.Manifest) ([]string, error) {
	other, ok, err := f.store.Current(osVersion)
	if errors.Is(err, generation.ErrIncomplete) || (err == nil && !ok) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return f.removePlaced(other, current, "/etc/")
}

// removeAll removes what all generations have placed. It removes a path of the
// current one whatever its content is, and a path of the others if it is as
// they placed it. It goes on after an error.
func (f files) removeAll(current generation.Manifest, all []generation.Manifest) error {
	var errs []error
	for _, m := range all {
		for _, p := range generation.Place(m) {
			name := strings.TrimPrefix(p.Path, "/")
			if err := f.node.Discard(name); !behindLink(err) {
				errs = append(errs, err)
			}
			info, err := f.node.Root().Lstat(name)
			if err != nil || info.IsDir() ||
				(m.Name() != current.Name() && !generation.Placed(f.node.FS(), p)) {
				continue
			}
			if err := f.removePath(p.Path); !behindLink(err) {
				errs = append(errs, err)
			}
		}
		errs = append(errs, f.removeDirs(m.Dirs, nil))
	}

	return errors.Join(errs...)
}

// stopOf returns which errors of a path end the change j. A revert has no other
// way to go, so it goes on, and a path that it cannot place is drift.
func stopOf(j generation.Journal) func(error) bool {
	if j.Direction() == generation.Revert {
		return Transient
	}
	return func(err error) bool { return err != nil }
}

// Transient reports whether err comes from the file system as a whole, such as
// a lack of space, or from a limit of the kernel, so that a retry may succeed.
func Transient(err error) bool {
	transient := []error{
		syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO,
		syscall.EMFILE, syscall.ENFILE, syscall.EAGAIN, syscall.ENOMEM,
	}
	return slices.ContainsFunc(transient, func(e error) bool { return errors.Is(err, e) })
}
