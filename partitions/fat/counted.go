package fat

import (
	"fmt"

	"github.com/loam-os/loam/partitions/fat/dirent"
)

// LinkCounted is Link for a boot entry whose tries the firmware counts. EDK2
// renames an entry by taking its set away and adding another at the end of the
// directory, in one flush: so the entry becomes the last of the directory and
// the first in its sector, which has room for three more. Then each of three
// counts is one write of one sector, and a power cut leaves the old name or the
// new one. If they lay in two sectors, both could stay, and a loader that finds
// the new name taken boots without counting, for ever.
func (f *FS) LinkCounted(dir, name string, c Chain, size int64) error {
	return f.linkStaged(dir, name, c, size, func(d *directory) error {
		return f.linkCounted(d, name, c.first, size)
	})
}

// RelinkCounted gives the content of an entry a second name, when its long name
// is incomplete, so that the entry can be removed. Both share their clusters
// until one is removed.
func (f *FS) RelinkCounted(dir, from, to string) error {
	d, err := f.directory(dir)
	if err == nil {
		e, ok := d.find(from)
		if !ok {
			return fmt.Errorf("relink: %w", notExist(join(dir, from)))
		}
		err = f.linkCounted(d, to, e.first, e.Size)
	}
	if err != nil {
		return fmt.Errorf("relink /%s/%s as %s: %w", dir, from, to, err)
	}
	return nil
}

func (f *FS) linkCounted(d *directory, name string, first uint32, size int64) error {
	short, err := d.admit(name, nil)
	if err != nil {
		return err
	}

	at := d.lastSector() * perSector
	if at+perSector > d.slots() {
		return ErrDirFull
	}

	d.end = min(d.end, at) // What lies behind it was deleted.
	return f.insert(d, at,
		append(dirent.LongSlots(name, short),
			dirent.ShortSlot(short, dirent.AttrArchive, first, size)...))
}

// lastSector is the first sector after the last entry.
func (d *directory) lastSector() int {
	last := -1
	for _, e := range d.entries {
		last = max(last, e.last())
	}
	return (last + perSector) / perSector
}

// RoomCounted is how many entries LinkCounted can add to BootDir, one after the
// other, if none is removed from its end.
func (f *FS) RoomCounted() (int, error) {
	d, err := f.directory(BootDir)
	if err != nil {
		return 0, err
	}
	return max(0, d.slots()/perSector-d.lastSector()), nil
}
