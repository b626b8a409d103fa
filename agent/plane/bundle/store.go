package bundle

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/durable"
)

// Store has the bundles of a node.
type Store struct {
	// dir is the root directory of the node.
	dir *durable.Dir

	// room returns how many bytes the state partition has free.
	room func() (int64, error)
}

// NewStore returns the store of the node with that root directory.
func NewStore(root *durable.Dir) Store {
	return Store{dir: root, room: func() (int64, error) { return freeIn(root.Root()) }}
}

// freeIn returns how many bytes the file system of the bundles has free.
func freeIn(root *os.Root) (int64, error) {
	dir, err := root.Open(Directory[1:])
	if err != nil {
		return 0, err
	}
	var s unix.Statfs_t
	err = unix.Fstatfs(int(dir.Fd()), &s)
	return int64(s.Bavail) * s.Bsize, errors.Join(err, dir.Close())
}

// place returns the name of a bundle's directory below the root.
func place(version string) string { return path.Join(Directory[1:], version) }

// unfinished returns the name of the directory of a bundle that is being fetched
// or removed.
func unfinished(version string) string { return path.Join(Directory[1:], "."+version) }

// path returns the absolute path of a name below the root.
func (s Store) path(name string) string { return filepath.Join(s.dir.Root().Name(), name) }

// Open opens the bundle of a version.
func (s Store) Open(version string) (Bundle, error) { return Open(s.path(place(version))) }

// Versions returns the versions that are there, sorted by name.
func (s Store) Versions() ([]string, error) {
	names, err := s.names()
	return slices.DeleteFunc(names, func(name string) bool { return name[0] == '.' }), err
}

// names returns the names of all bundles, also of unfinished ones.
func (s Store) names() ([]string, error) {
	entries, err := fs.ReadDir(s.dir.Root().FS(), Directory[1:])
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, err
}

var inDirectory = regexp.MustCompile(regexp.QuoteMeta(Directory+"/") + `([^/\s]+)`)

// NamedIn returns the versions whose files a text names, such as that of a unit.
func NamedIn(text []byte) []string {
	var versions []string
	for _, found := range inDirectory.FindAllSubmatch(text, -1) {
		versions = append(versions, string(found[1]))
	}
	return versions
}

// Prune removes the bundles of versions before oldest that are not in keep, and what
// fetches of them have left. What comes later stays: an operator may have put it
// there for an upgrade.
func (s Store) Prune(oldest string, keep []string) error {
	names, err := s.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		version := strings.TrimPrefix(name, ".")
		if semver.IsValid("v"+version) && semver.Compare("v"+version, "v"+oldest) < 0 &&
			!slices.Contains(keep, version) {
			err = errors.Join(err, s.remove(version))
		}
	}
	return err
}

// remove removes the bundle of a version. A power cut leaves a part of it under
// the name of an unfinished one.
func (s Store) remove(version string) error {
	_, err := s.dir.Root().Lstat(place(version))
	if err == nil {
		err = s.retract(version)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, s.dir.RemoveAll(unfinished(version)), s.dir.SyncDir(Directory[1:]))
}

// retract gives the bundle of a version the name of an unfinished one, in place of
// what is there.
func (s Store) retract(version string) error {
	err := errors.Join(s.dir.RemoveAll(unfinished(version)), s.dir.SyncDir(Directory[1:]))
	if err != nil {
		return err
	}
	return s.dir.Move(place(version), unfinished(version))
}
