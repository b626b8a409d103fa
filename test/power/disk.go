package power

import (
	"bytes"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/durable"
)

// Disk is a file system in memory: what programs see, and what of it is sure to
// be on the disk.
type Disk struct {
	root *node
	// pending are the changes of entries that no sync has made durable, in
	// order.
	pending []change
}

// node is a file, a symbolic link or a directory; mode has the type.
type node struct {
	mode   fs.FileMode
	target string
	data   []byte

	// synced and syncedMode are data and mode as of the last sync.
	synced     []byte
	syncedMode fs.FileMode

	// entries are a directory's as programs see them, durable the entries that
	// survive a power cut.
	entries, durable map[string]*node
}

// change sets entries of one directory at once; nil takes one away.
type change struct {
	dir *node
	set map[string]*node
}

func newDir() *node {
	return &node{mode: fs.ModeDir | 0o755, entries: map[string]*node{}, durable: map[string]*node{}}
}

// maxLinks is how many symbolic links a name may lead through.
const maxLinks = 40

// lookup is the node called name, through relative links as an os.Root goes;
// nil if absent. The last element is not followed.
func (d *Disk) lookup(name string) *node {
	parent, base := d.parent(name)
	if parent == nil || base == "." {
		return parent
	}
	return parent.entries[base]
}

// parent is the directory that name is in, nil if absent.
func (d *Disk) parent(name string) (*node, string) {
	name = path.Clean(name)
	for range maxLinks {
		next, rest := d.walk(name)
		if rest == "" {
			return next, path.Base(name)
		}
		name = rest
	}
	return nil, ""
}

// walk goes to the directory of name. At a link it stops and returns the name
// with the link put in.
func (d *Disk) walk(name string) (dir *node, again string) {
	dir = d.root
	parts := strings.Split(name, "/")
	for i, part := range parts[:len(parts)-1] {
		next := dir.entries[part]
		switch {
		case next == nil:
			return nil, ""
		case next.mode&fs.ModeSymlink != 0:
			if path.IsAbs(next.target) {
				return nil, ""
			}
			return nil, path.Join(path.Join(parts[:i]...), next.target, path.Join(parts[i+1:]...))
		case !next.mode.IsDir():
			return nil, ""
		}

		dir = next
	}

	return dir, ""
}

// set changes entries of dir for programs; the disk follows when it is synced.
func (d *Disk) set(dir *node, entries map[string]*node) {
	put(dir.entries, entries)
	d.pending = append(d.pending, change{dir, entries})
}

func put(to, set map[string]*node) {
	for name, n := range set {
		if n == nil {
			delete(to, name)
		} else {
			to[name] = n
		}
	}
}

// apply does one step. A step that the kernel would refuse does nothing.
func (d *Disk) apply(op Op) {
	dir, base := d.parent(op.Name)
	if dir == nil {
		return
	}

	have := d.lookup(op.Name)
	switch op.Op {
	case durable.Create:
		d.add(dir, base, &node{mode: 0o600, syncedMode: 0o600})
	case durable.Symlink:
		d.add(dir, base, &node{mode: fs.ModeSymlink | 0o777, target: op.From})
	case durable.Mkdir:
		d.add(dir, base, newDir())
	case durable.Link:
		if from := d.lookup(op.From); from != nil {
			d.add(dir, base, from)
		}
	case durable.Write, durable.Append:
		if have != nil && have.mode.IsRegular() {
			have.data = op.Data
			have.mode = op.Mode
		}
	case durable.Rename:
		d.rename(op.From, dir, base)
	case durable.Remove:
		if have != nil && len(have.entries) == 0 {
			d.set(dir, map[string]*node{base: nil})
		}
	case durable.SyncFile:
		if have != nil {
			have.synced = have.data
			have.syncedMode = have.mode
		}
	case durable.SyncDir:
		if have != nil && have.mode&fs.ModeSymlink != 0 {
			have = d.lookup(path.Join(path.Dir(op.Name), have.target))
		}
		d.flush(have)
	case durable.SyncAll:
		d.syncAll()
	}
}

func (d *Disk) add(dir *node, base string, n *node) {
	if dir.entries[base] == nil {
		d.set(dir, map[string]*node{base: n})
	}
}

// rename is within one directory, as package durable does it.
func (d *Disk) rename(from string, dir *node, base string) {
	n := d.lookup(from)
	over := dir.entries[base]
	if n == nil || (over != nil && over.mode.IsDir()) {
		return
	}
	d.set(dir, map[string]*node{path.Base(from): nil, base: n})
}

// flush makes the entries of dir durable.
func (d *Disk) flush(dir *node) {
	d.pending = slices.DeleteFunc(d.pending, func(c change) bool {
		if c.dir == dir {
			put(dir.durable, c.set)
		}
		return c.dir == dir
	})
}

func (d *Disk) syncAll() {
	for _, c := range d.pending {
		put(c.dir.durable, c.set)
	}
	d.pending = nil
	d.root.each(func(n *node) {
		n.synced = n.data
		n.syncedMode = n.mode
	})
}

// each calls f with n and all beneath it that programs see.
func (n *node) each(f func(*node)) {
	f(n)
	for _, name := range slices.Sorted(maps.Keys(n.entries)) {
		n.entries[name].each(f)
	}
}

// beneath are the names of name and all beneath it, each after those in it.
func (d *Disk) beneath(name string) []string {
	n := d.lookup(name)
	if n == nil {
		return nil
	}

	var all []string
	for _, child := range slices.Sorted(maps.Keys(n.entries)) {
		all = append(all, d.beneath(path.Join(name, child))...)
	}

	return append(all, name)
}

// isDurable reports whether the content of n is on the disk.
func (n *node) isDurable() bool {
	return !n.mode.IsRegular() || (n.mode == n.syncedMode && bytes.Equal(n.data, n.synced))
}
