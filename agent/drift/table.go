package drift

import "golang.org/x/sys/unix"

// table has the watched directories by watch descriptor.
type table map[int32]*directory

// directory is a watched directory, with the entries that matter by name.
type directory struct {
	// files are the managed paths that an entry stands for: several, if links
	// lead to this directory in several ways.
	files map[string][]string

	// ways are the directories of managed paths that are looked up through an
	// entry.
	ways map[string][]string
	id   identity
}

// identity distinguishes a directory from another mounted over it.
type identity struct{ device, inode uint64 }

func identityOf(name string) (identity, error) {
	var s unix.Stat_t
	err := unix.Stat(name, &s)
	return identity{uint64(s.Dev), s.Ino}, err
}

// set is a set of managed paths.
type set map[string]struct{}

func (s set) add(paths []string) {
	for _, name := range paths {
		s[name] = struct{}{}
	}
}

const (
	// written are changes of an entry's content or mode, replaced changes of
	// which file it is.
	written  = unix.IN_CLOSE_WRITE | unix.IN_ATTRIB
	replaced = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO
	// gone are events of a watched directory itself. The kernel always sends
	// IN_UNMOUNT and IN_IGNORED; the latter follows IN_DELETE_SELF.
	gone = unix.IN_MOVE_SELF | unix.IN_UNMOUNT | unix.IN_IGNORED
	// watched is the mask of a watch.
	watched = written | replaced | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR
)

// match returns the managed paths in below that raw events are about, and
// whether the way to one of them has changed.
func (t table) match(raw []byte, below map[string][]string) (changed set, moved bool) {
	changed = set{}
	for e := range parse(raw) {
		dir := t[e.watch]
		switch {
		case e.mask&unix.IN_Q_OVERFLOW != 0:
			for _, paths := range below {
				changed.add(paths)
			}
			moved = true
		case dir == nil: // From a watch that has been removed.
		case e.mask&gone != 0:
			dir.all(changed, below)
			moved = true
		default:
			changed.add(dir.files[e.name])
			if parents := dir.ways[e.name]; e.mask&replaced != 0 && len(parents) > 0 {
				changed.addBelow(parents, below)
				moved = true
			}
		}
	}

	return changed, moved
}

// all adds the managed paths of all entries.
func (d *directory) all(changed set, below map[string][]string) {
	for _, paths := range d.files {
		changed.add(paths)
	}
	for _, parents := range d.ways {
		changed.addBelow(parents, below)
	}
}

func (s set) addBelow(parents []string, below map[string][]string) {
	for _, parent := range parents {
		s.add(below[parent])
	}
}
