package power

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
)

// Read takes in a tree, all of it as durable.
func Read(root *os.Root) (*Disk, error) {
	d := &Disk{root: newDir()}
	links := map[uint64]*node{}
	err := fs.WalkDir(root.FS(), ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}

		n, err := readNode(root, name, links)
		if err != nil {
			return err
		}

		parent, base := d.parent(name)
		parent.entries[base] = n
		parent.durable[base] = n

		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the tree %s: %w", root.Name(), err)
	}

	return d, nil
}

func readNode(root *os.Root, name string, links map[uint64]*node) (*node, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return newDir(), nil
	}

	inode := info.Sys().(*syscall.Stat_t).Ino
	if n := links[inode]; n != nil {
		return n, nil
	}

	n := &node{mode: info.Mode(), syncedMode: info.Mode()}
	links[inode] = n

	if info.Mode()&fs.ModeSymlink != 0 {
		n.target, err = root.Readlink(name)
		return n, err
	}

	n.data, err = root.ReadFile(name)
	n.synced = n.data
	return n, err
}

// Write makes what programs see of d in the empty directory dir.
func (d *Disk) Write(dir string) error {
	return d.root.write(dir, map[*node]string{})
}

func (n *node) write(dir string, made map[*node]string) error {
	for name, child := range n.entries {
		file := path.Join(dir, name)
		if err := child.make(file, made); err != nil {
			return fmt.Errorf("write the tree: %w", err)
		}
		made[child] = file
		if err := child.write(file, made); err != nil {
			return err
		}
	}
	return nil
}

func (n *node) make(file string, made map[*node]string) error {
	if first, ok := made[n]; ok {
		return os.Link(first, file)
	}

	switch {
	case n.mode.IsDir():
		return os.Mkdir(file, 0o755)
	case n.mode&fs.ModeSymlink != 0:
		return os.Symlink(n.target, file)
	}

	if err := os.WriteFile(file, n.data, 0o600); err != nil || n.mode == 0o600 {
		return err
	}

	return os.Chmod(file, n.mode)
}

// Clone returns a copy of d, with the changes that are not synced.
func (d *Disk) Clone() *Disk {
	made := map[*node]*node{nil: nil}
	c := &Disk{root: d.root.clone(made)}
	for _, p := range d.pending {
		c.pending = append(c.pending, change{p.dir.clone(made), cloneEntries(p.set, made)})
	}
	return c
}

func (n *node) clone(made map[*node]*node) *node {
	if m, ok := made[n]; ok {
		return m
	}

	m := *n
	made[n] = &m
	m.entries = cloneEntries(n.entries, made)
	m.durable = cloneEntries(n.durable, made)

	return &m
}

func cloneEntries(entries map[string]*node, made map[*node]*node) map[string]*node {
	if entries == nil {
		return nil
	}
	c := make(map[string]*node, len(entries))
	for name, n := range entries {
		c[name] = n.clone(made)
	}
	return c
}

// Live is what programs see, as if all of it were durable.
func (d *Disk) Live() *Disk { return d.Cut(Loss{Entries: All, Content: All}) }

// Sum is the same for two disks on which programs see the same.
func (d *Disk) Sum() [sha256.Size]byte {
	sum := sha256.New()
	d.list(func(name string, id int, n *node) {
		fmt.Fprintln(sum, name, id, uint32(n.mode), n.target, len(n.data))
		sum.Write(n.data)
	})
	return [sha256.Size]byte(sum.Sum(nil))
}

// String lists what programs see: a line for each name, with a number that is
// the same for hard links to one file.
func (d *Disk) String() string {
	var out strings.Builder
	d.list(func(name string, id int, n *node) {
		fmt.Fprintf(&out, "%s %d %s %s %q\n", name, id, n.mode, n.target, n.data)
	})
	return out.String()
}

func (d *Disk) list(line func(name string, id int, n *node)) {
	ids := map[*node]int{}
	var list func(name string, n *node)
	list = func(name string, n *node) {
		if _, ok := ids[n]; !ok {
			ids[n] = len(ids)
		}
		line(name, ids[n], n)
		for _, child := range slices.Sorted(maps.Keys(n.entries)) {
			list(name+"/"+child, n.entries[child])
		}
	}
	list(".", d.root)
}
