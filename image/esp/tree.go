package esp

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/partitions/fat/dirent"
)

// endOfChain marks the last cluster of a chain in the FAT.
const endOfChain = 0x0fffffff

// node is a file or a directory.
type node struct {
	name     string
	short    dirent.ShortName
	dir      bool
	content  *io.SectionReader // of a file; nil: empty
	readOnly bool
	minSize  int64 // of a directory, in bytes
	children []*node
	parent   *node
	first    uint32 // first cluster; 0 for an empty file
}

// newTree makes the tree of directories and files. In a directory the fillers
// come first, then the entries in the order of the sorted paths.
func newTree(files []File) (*node, error) {
	root := &node{dir: true}
	boot, err := root.mkdir(strings.Split(bootentry.Dir, "/"))
	if err != nil {
		return nil, err
	}

	boot.minSize = bootentry.DirSize
	for _, name := range bootentry.Fillers() {
		boot.children = append(boot.children, &node{name: name})
	}

	sorted := slices.SortedFunc(slices.Values(files), func(a, b File) int {
		return strings.Compare(a.Path, b.Path)
	})

	for _, f := range sorted {
		if err := root.addFile(f); err != nil {
			return nil, fmt.Errorf("file %q: %w", f.Path, err)
		}
	}

	root.walk(func(n *node) {
		if err == nil {
			err = n.nameChildren()
		}
	})

	return root, err
}

func (n *node) addFile(f File) error {
	content := f.content()
	if content.Size() > 1<<32-1 {
		return fmt.Errorf("%d bytes: FAT32 has files of at most 4 GiB", content.Size())
	}

	parts := strings.Split(f.Path, "/")
	dir, err := n.mkdir(parts[:len(parts)-1])
	if err != nil {
		return err
	}

	name := parts[len(parts)-1]
	if err := dirent.CheckName(name); err != nil {
		return err
	}
	if dir.child(name) != nil {
		return fmt.Errorf("there already (FAT does not tell upper case from lower)")
	}

	dir.children = append(dir.children, &node{name: name, content: content, readOnly: f.ReadOnly})
	return nil
}

// mkdir finds or makes the directory.
func (n *node) mkdir(parts []string) (*node, error) {
	for _, name := range parts {
		if err := dirent.CheckName(name); err != nil {
			return nil, err
		}

		c := n.child(name)
		if c == nil {
			c = &node{name: name, dir: true, parent: n}
			n.children = append(n.children, c)
		}

		if !c.dir {
			return nil, fmt.Errorf("%s is a file", name)
		}

		n = c
	}
	return n, nil
}

func (n *node) child(name string) *node {
	for _, c := range n.children {
		if strings.EqualFold(c.name, name) {
			return c
		}
	}
	return nil
}

// walk calls f for the node and everything below it, parents first.
func (n *node) walk(f func(*node)) {
	f(n)
	for _, c := range n.children {
		c.walk(f)
	}
}

// size in bytes that the node takes in clusters.
func (n *node) size() int64 {
	if !n.dir {
		return n.fileSize()
	}

	slots := 2 // . and .., or room for a label in the root
	for _, c := range n.children {
		slots += dirent.SlotsFor(c.name)
	}
	return max(int64(slots)*dirent.SlotSize, n.minSize)
}

// fileSize is the size that the directory entry says: 0 for a directory.
func (n *node) fileSize() int64 {
	if n.content == nil {
		return 0
	}
	return n.content.Size()
}

// clusters that the node takes.
func (n *node) clusters() int64 { return (n.size() + clusterSize - 1) / clusterSize }

// place gives every node its clusters, one after the other, and returns the FAT
// up to the last used entry.
func (g geometry) place(root *node) ([]uint32, error) {
	need := int64(0)
	root.walk(func(n *node) { need += n.clusters() })
	if need > int64(g.clusters) {
		return nil, fmt.Errorf("files take %d clusters of %d bytes, there are %d",
			need, clusterSize, g.clusters)
	}

	fat := []uint32{0x0ffffff8, endOfChain} // media type; clean shutdown, no errors
	root.walk(func(n *node) {
		count := n.clusters()
		if count == 0 {
			return
		}

		n.first = uint32(len(fat))
		for range count - 1 {
			fat = append(fat, uint32(len(fat))+1)
		}

		fat = append(fat, endOfChain)
	})

	return fat, nil
}
