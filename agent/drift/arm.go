package drift

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLinks is the number of links that the kernel follows in one path
// (path_resolution(7)).
const maxLinks = 40

// arm watches the directories that matter now, and no others. mu must be held.
func (w *Watcher) arm() error {
	if w.ended {
		return os.ErrClosed
	}
	if w.inotify == nil {
		events, err := w.open()
		if err != nil {
			return err
		}
		w.inotify = events
		go w.run(events)
	}

	conn, err := w.inotify.SyscallConn()
	if err != nil {
		return err
	}
	var armErr error
	// Control keeps the descriptor open: Close may come at any time.
	err = conn.Control(func(fd uintptr) { armErr = w.armOn(int(fd)) })
	return errors.Join(err, armErr)
}

// armOn keeps existing watches. A change on the way to a watched directory has
// made an event, for which take has dropped w.armed.
func (w *Watcher) armOn(fd int) error {
	a := w.armed
	if a == nil {
		a = &arming{
			table: table{},
			seen:  map[string]*directory{},
			ends:  map[string]*directory{},
		}
	}

	before := slices.Collect(maps.Keys(w.table))
	a.inotify = fd
	a.add = w.add
	a.root = w.root
	a.links = map[string]link{}
	a.keep(w.below)

	var errs []error
	for parent, paths := range w.below {
		errs = append(errs, a.watchPaths(parent, paths))
	}

	a.tidy()

	for _, wd := range before {
		if a.table[wd] == nil {
			// An error means that the directory is gone, and the watch with it.
			_, _ = unix.InotifyRmWatch(fd, uint32(wd))
		}
	}

	w.table = a.table
	w.armed = a
	err := errors.Join(errs...)
	if err != nil {
		w.armed = nil
	}

	return err
}

// arming is the state from which a table was built.
type arming struct {
	inotify int
	add     func(fd int, name string, mask uint32) (int, error)
	root    string
	table   table

	// seen are the directories by path; nil if it cannot be watched.
	seen map[string]*directory

	// ends are the directories of managed paths by path, with links followed;
	// nil if it does not exist.
	ends map[string]*directory

	// links are the entries read this time, by path.
	links map[string]link
}

// keep drops the directories without managed paths, and all managed paths.
func (a *arming) keep(below map[string][]string) {
	gone := func(parent string) bool { return below[parent] == nil }
	maps.DeleteFunc(a.ends, func(parent string, _ *directory) bool { return gone(parent) })

	// A directory that could not be watched may exist now, for another path
	// through it.
	maps.DeleteFunc(a.seen, func(_ string, dir *directory) bool { return dir == nil })
	for _, dir := range a.table {
		clear(dir.files)
		for name, parents := range dir.ways {
			dir.ways[name] = slices.DeleteFunc(parents, gone)
		}
		maps.DeleteFunc(dir.ways, func(_ string, parents []string) bool {
			return len(parents) == 0
		})
	}
}

// tidy removes directories that matter to no path from the table.
func (a *arming) tidy() {
	useless := func(dir *directory) bool { return dir != nil && len(dir.files)+len(dir.ways) == 0 }
	maps.DeleteFunc(a.table, func(_ int32, dir *directory) bool { return useless(dir) })
	maps.DeleteFunc(a.seen, func(_ string, dir *directory) bool { return useless(dir) })
}

// link is the result of readlink(2) for an entry.
type link struct {
	target string
	err    error
}

// read returns the target of an entry and reads it only once: its directory is
// watched, so a later change makes an event.
func (a *arming) read(name string) (string, error) {
	l, known := a.links[name]
	if !known {
		l.target, l.err = os.Readlink(filepath.Join(a.root, name))
		a.links[name] = l
	}
	return l.target, l.err
}

// watchPaths watches the directory parent for the managed paths in it.
func (a *arming) watchPaths(parent string, paths []string) error {
	dir, known := a.ends[parent]
	if !known {
		var err error
		dir, err = a.lookup(parent)
		if err != nil {
			return err
		}
		a.ends[parent] = dir
	}

	if dir == nil {
		return nil
	}

	for _, name := range paths {
		base := path.Base(name)
		dir.files[base] = append(dir.files[base], name)
	}

	return nil
}

// lookup watches each directory in which parent is looked up, and parent. It
// returns nil if parent does not exist, and then the missing entry is watched.
// An entry is read after its directory is watched, so a change is either seen
// here or makes an event.
func (a *arming) lookup(parent string) (*directory, error) {
	at := "/"
	rest := split(parent)
	for links := 0; len(rest) > 0 && links <= maxLinks; {
		name := rest[0]
		rest = rest[1:]
		if name == ".." {
			at = path.Dir(at)
			continue
		}

		dir, err := a.watch(at)
		if dir == nil {
			return nil, err
		}

		dir.ways[name] = append(dir.ways[name], parent)
		full := path.Join(at, name)
		target, err := a.read(full)
		switch {
		case errors.Is(err, unix.EINVAL): // Not a link. If it is a file, watching it fails.
			at = full
		case err != nil:
			return nil, nil // Missing, or unreadable until it changes.
		default:
			links++
			rest = append(split(target), rest...)
			if path.IsAbs(target) {
				at = "/"
			}
		}
	}

	if len(rest) > 0 {
		return nil, nil // A loop of links leads nowhere until one changes.
	}

	return a.watch(at)
}

// watch watches the directory name, which has no links in its path. It returns
// nil if name is a file, or if an entry above it has changed since it was read.
func (a *arming) watch(name string) (*directory, error) {
	if dir, ok := a.seen[name]; ok {
		return dir, nil
	}

	a.seen[name] = nil
	full := filepath.Join(a.root, name)
	wd, err := a.add(a.inotify, full, watched)
	missing := errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR)
	if missing && name != "/" {
		return nil, nil
	}

	if err != nil {
		return nil, fmt.Errorf("inotify_add_watch %s: %w", full, err)
	}

	dir := a.table[int32(wd)]
	if dir == nil {
		dir = &directory{files: map[string][]string{}, ways: map[string][]string{}}
		dir.id, _ = identityOf(full) // If it is gone already, it differs from what comes later.
		a.table[int32(wd)] = dir
	}

	a.seen[name] = dir
	return dir, nil
}

// covered reports whether the name of a watched directory now leads to another
// directory. Mounting makes no event.
func (a *arming) covered() bool {
	for name, dir := range a.seen {
		if dir == nil {
			continue
		}
		if id, err := identityOf(filepath.Join(a.root, name)); err != nil || id != dir.id {
			return true
		}
	}
	return false
}

// split returns the parts of name without empty ones and ".".
func split(name string) []string {
	parts := strings.Split(name, "/")
	kept := parts[:0]
	for _, part := range parts {
		if part != "" && part != "." {
			kept = append(kept, part)
		}
	}
	return kept
}
