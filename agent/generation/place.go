package generation

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/durable"
)

// Placement is one managed path of the running node.
type Placement struct {
	// Path is absolute.
	Path string        `json:"path"`
	Kind PlacementKind `json:"kind"`
	// Target is what a symlink says.
	Target string `json:"target,omitempty"`
	// Mode is of a copy.
	Mode fs.FileMode `json:"mode,omitempty"`
}

// PlacementKind is how a managed path gets its content.
type PlacementKind string

const (
	// PlaceSymlink follows the current generation, so that one rename changes
	// all of them at once.
	PlaceSymlink PlacementKind = "symlink"
	// PlaceCopy is a regular file, for what symlinks do not reach.
	PlaceCopy PlacementKind = "copy"
)

// copied are the trees whose files are real, and why: a symbolic link out of a
// directory leads nowhere for a process that has only that directory mounted.
var copied = [...]struct{ dir, reason string }{
	{"/etc/kubernetes", "kubelet and static pods mount manifests, PKI and kubeconfigs by hostPath"},
	{"/etc/cni", "network plugins' pods mount net.d and write beside our files"},
	{"/etc/ssl", "pods mount the machine's CA certificates by hostPath"},
	{"/etc/pki", "as /etc/ssl, where other distributions have it"},
	{"/etc/ca-certificates", "as /etc/ssl"},
	{"/usr/local/share/ca-certificates", "as /etc/ssl"},
	{"/opt/cni", "network plugins' pods mount bin and add to it"},
	{"/var", "data of daemons and pods (kubelet, static pods, CA certificates), mounted by hostPath"},
}

// CopiedBecause says why path is a real file on a node, "" if it is a symbolic
// link into the current generation.
func CopiedBecause(name string) string {
	for _, c := range copied {
		if strings.HasPrefix(name, c.dir+"/") {
			return c.reason
		}
	}
	return ""
}

// Place says for every entry of m how it appears on the node, in the order of
// the entries. It is pure.
func Place(m Manifest) []Placement {
	placements := make([]Placement, 0, len(m.Entries))
	for _, e := range m.Entries {
		p := Placement{Path: e.Path, Kind: PlaceSymlink, Target: path.Join(Link, rootName, e.Path)}
		switch {
		case e.Kind == KindLink:
			p.Target = e.Target
		case CopiedBecause(e.Path) != "":
			p = Placement{Path: e.Path, Kind: PlaceCopy, Mode: e.Mode}
		}
		placements = append(placements, p)
	}
	return placements
}

// Materialize brings placements about in root, a node's root directory;
// content is the root directory of their generation. What is there already is
// not written again.
func Materialize(root *os.Root, placements []Placement, content *os.Root) error {
	dir := durable.New(root, nil)
	for _, p := range placements {
		if _, err := Put(dir, p, content); err != nil {
			return err
		}
	}
	return nil
}

// Put brings one placement about and reports whether it had to. A file or link
// in the way is replaced; a directory in the way is an error.
func Put(dir *durable.Dir, p Placement, content *os.Root) (bool, error) {
	name := strings.TrimPrefix(p.Path, "/")
	if _, err := dir.MkdirAll(path.Dir(name)); err != nil {
		return false, fmt.Errorf("place %s: %w", p.Path, err)
	}
	if p.Kind == PlaceSymlink {
		return dir.Symlink(p.Target, name)
	}
	text, err := content.ReadFile(name)
	if err != nil {
		return false, fmt.Errorf("place %s: %w", p.Path, err)
	}
	return dir.WriteFile(name, text, p.Mode)
}

// MissingDirs are the directories above the entries that root does not have,
// or that have made, sorted: what goes when the entries go. A path that have
// has as a file or link is no directory yet.
func MissingDirs(root *os.Root, entries []Entry, have Manifest) ([]string, error) {
	known, files := map[string]bool{}, map[string]bool{}
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
			if known[dir] || files[dir] || missing[path.Dir(dir)] && !known[path.Dir(dir)] {
				missing[dir] = true
				continue
			}
			// Not Stat: /opt may be a link of the image to where nothing is yet.
			_, err := root.Lstat(dir[1:])
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("look at %s: %w", dir, err)
			}
			missing[dir] = err != nil
		}
	}
	maps.DeleteFunc(missing, func(_ string, is bool) bool { return !is })
	return slices.Sorted(maps.Keys(missing)), nil
}

// dirsAbove are the directories above name, outermost first, "/" left out.
func dirsAbove(name string) []string {
	var dirs []string
	for dir := path.Dir(name); dir != "/"; dir = path.Dir(dir) {
		dirs = append(dirs, dir)
	}
	slices.Reverse(dirs)
	return dirs
}

// Placed reports whether p is already as Put would make it.
func Placed(root *os.Root, p Placement, content *os.Root) bool {
	name := strings.TrimPrefix(p.Path, "/")
	if p.Kind == PlaceSymlink {
		target, err := root.Readlink(name)
		return err == nil && target == p.Target
	}
	info, err := root.Lstat(name)
	if err != nil || info.Mode() != p.Mode {
		return false
	}
	have, err := root.ReadFile(name)
	if err != nil {
		return false
	}
	want, err := content.ReadFile(name)
	return err == nil && bytes.Equal(have, want)
}
