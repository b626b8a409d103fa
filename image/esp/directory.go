package esp

import (
	"fmt"

	"github.com/loam-os/loam/partitions/fat/dirent"
)

// directory is what the clusters of a directory hold, without the zeros at the
// end.
func (n *node) directory() []byte {
	var b []byte
	if n.parent != nil {
		up := n.parent.first
		if n.parent.parent == nil {
			up = 0 // the root has no number here
		}
		b = append(b, dirent.DotSlots(n.first, up)...)
	}

	for _, c := range n.children {
		attr := byte(dirent.AttrArchive)
		if c.dir {
			attr = dirent.AttrDirectory
		}
		if c.readOnly {
			attr |= dirent.AttrReadOnly
		}

		b = append(b, dirent.LongSlots(c.name, c.short)...)
		b = append(b, dirent.ShortSlot(c.short, attr, c.first, c.fileSize())...)
	}

	return b
}

// nameChildren gives every entry of the directory its 8.3 name: its own where
// it is one, else another.
func (n *node) nameChildren() error {
	used := map[dirent.ShortName]bool{}
	for _, own := range []bool{true, false} {
		for _, c := range n.children {
			if (dirent.SlotsFor(c.name) == 1) != own {
				continue
			}

			short, err := dirent.Shorten(c.name, func(s dirent.ShortName) bool { return used[s] })
			if err != nil {
				return fmt.Errorf("directory %q: %w", n.name, err)
			}

			c.short = short
			used[short] = true
		}
	}

	return nil
}
