package fat

import (
	"fmt"

	"github.com/loam-os/loam/partitions/fat/dirent"
)

// Link gives staged content a name in the directory by one write of one sector.
// If the place is the first after the directory's end and in the next sector,
// Link writes that sector first, then the sector that moves the end. The error
// wraps fs.ErrExist if the name exists, ErrDirFull if no place is free.
func (f *FS) Link(dir, name string, c Chain, size int64) error {
	return f.linkStaged(dir, name, c, size, func(d *directory) error {
		return d.link(name, dirent.AttrArchive, c.first, size)
	})
}

// linkStaged has staged content linked, once.
func (f *FS) linkStaged(
	dir, name string, c Chain, size int64, link func(d *directory) error,
) error {
	if size != c.size || (c.first != 0 && f.staged[c.first] != f.need(size)) {
		return fmt.Errorf("link %s in /%s: %d bytes are not what was staged, or it is linked",
			name, dir, size)
	}

	d, err := f.directory(dir)
	if err == nil {
		err = link(d)
	}

	if err != nil {
		return fmt.Errorf("link %s in /%s: %w", name, dir, err)
	}

	delete(f.staged, c.first)
	return nil
}
