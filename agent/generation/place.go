package generation

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/durable"
)

// Placement is one managed path of the running node.
type Placement struct {
	Kind PlacementKind
	// Entry is the generation's entry for the path. Target is the target of a
	// symlink on the node.
	Entry
}

// CurrentTarget returns the target of Link on a node with that OS version:
// through View, where that is mounted.
func CurrentTarget(node fs.FS, osVersion string) string {
	dir := Dir
	if _, err := fs.Stat(node, path.Join(View, generationsDir)[1:]); err == nil {
		dir = View
	}
	return path.Join(dir, "os", osVersion, "current")
}

// PlacementKind is how a managed path gets its content.
type PlacementKind string

const (
	// PlaceSymlink follows the current generation, so that one rename changes
	// all of them at once.
	PlaceSymlink PlacementKind = "symlink"
	// PlaceCopy is a regular file, where symlinks do not work.
	PlaceCopy PlacementKind = "copy"
)

// copied are the trees whose files are real, and why: a symbolic link out of a
// directory is broken for a process that has only that directory mounted.
var copied = [...]struct{ dir, reason string }{
	{"/etc/kubernetes", "kubelet and static pods mount manifests, PKI and kubeconfigs by hostPath"},
	{"/etc/cni", "network plugins' pods mount net.d and write beside our files"},
	{"/etc/ssl", "pods mount the machine's CA certificates by hostPath"},
	{"/etc/pki", "as /etc/ssl, where other distributions have it"},
	{"/etc/ca-certificates", "as /etc/ssl"},
	{"/usr/local/share/ca-certificates", "as /etc/ssl"},
	{"/opt/cni", "network plugins' pods mount bin and add to it"},
	{
		"/var",
		"data of daemons and pods (kubelet, static pods, CA certificates), " +
			"mounted by hostPath",
	},
}

// CopiedBecause returns why path is a real file on a node, "" if it is a
// symbolic link into the current generation.
func CopiedBecause(name string) string {
	for _, c := range copied {
		if strings.HasPrefix(name, c.dir+"/") {
			return c.reason
		}
	}
	return ""
}

// Place returns how every entry of m appears on the node, in the order of the
// entries. It is pure.
func Place(m Manifest) []Placement {
	placements := make([]Placement, 0, len(m.Entries))
	for _, e := range m.Entries {
		p := Placement{PlaceSymlink, e}
		switch {
		case e.Kind == KindLink:
		case CopiedBecause(e.Path) != "":
			p.Kind = PlaceCopy
		default:
			p.Target = path.Join(Link, rootName, e.Path)
		}
		placements = append(placements, p)
	}
	return placements
}

// Put makes one placement on the node with root directory dir and reports
// whether it had to change anything. It replaces a file or link in the way; a
// directory in the way is an error. A path behind a link that the image does
// not have is an [*Error].
func Put(dir *durable.Dir, p Placement, store Reader) (bool, error) {
	if Placed(dir.FS(), p) {
		return false, nil
	}
	if err := put(dir, p, store); err != nil {
		return false, placeError(p.Path, err)
	}
	return true, nil
}

// Reach returns an [*Error] if path is behind a link that the image does not
// have. What Placed reads there is not the node's.
func Reach(dir *durable.Dir, path string) error {
	if err := dir.Reach(strings.TrimPrefix(path, "/")); err != nil {
		return placeError(path, err)
	}
	return nil
}

func placeError(path string, err error) error {
	if link, ok := errors.AsType[*durable.LinkError](err); ok {
		return replacedByLink("/" + link.Dir)
	}
	return fmt.Errorf("place %s: %w", path, err)
}

func put(dir *durable.Dir, p Placement, store Reader) error {
	name := strings.TrimPrefix(p.Path, "/")
	if err := dir.MkdirAll(path.Dir(name)); err != nil {
		return err
	}

	if p.Kind == PlaceSymlink {
		_, err := dir.Symlink(p.Target, name)
		return err
	}

	content, err := store.Open(p.Entry)
	if err != nil {
		return err
	}
	defer content.Close()

	return dir.WriteFrom(name, content, p.Mode)
}

// Placed reports whether p is already on the node as Put would make it.
func Placed(node fs.FS, p Placement) bool {
	name := strings.TrimPrefix(p.Path, "/")
	if p.Kind == PlaceSymlink {
		target, err := fs.ReadLink(node, name)
		return err == nil && target == p.Target
	}
	return isContent(node, name, p.Mode, p.Digest, p.Size)
}

// MissingDirs returns the directories above the entries that node does not have
// or that have made, sorted: the ones to remove with the entries. A path that
// is a file or link in have is not a directory yet.
func MissingDirs(node fs.FS, entries []Entry, have Manifest) ([]string, error) {
	known := map[string]bool{}
	files := map[string]bool{}

	for _, dir := range have.Dirs {
		known[dir] = true
	}

	for _, e := range have.Entries {
		files[e.Path] = true
	}

	missing := map[string]bool{"/": false}
	for _, e := range entries {
		for _, dir := range dirsAbove(e.Path) {
			if _, seen := missing[dir]; seen {
				continue
			}

			if known[dir] || files[dir] || (missing[path.Dir(dir)] && !known[path.Dir(dir)]) {
				missing[dir] = true
				continue
			}

			// Lstat, because /opt may be a link of the image to a path that
			// does not exist yet.
			_, err := fs.Lstat(node, dir[1:])
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("inspect %s: %w", dir, err)
			}

			missing[dir] = err != nil
		}
	}

	maps.DeleteFunc(missing, func(_ string, is bool) bool { return !is })
	return slices.Sorted(maps.Keys(missing)), nil
}

// dirsAbove returns the directories above name, outermost first, without "/".
func dirsAbove(name string) []string {
	var dirs []string
	for dir := path.Dir(name); dir != "/"; dir = path.Dir(dir) {
		dirs = append(dirs, dir)
	}
	slices.Reverse(dirs)
	return dirs
}
