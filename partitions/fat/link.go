package fat

import (
	"fmt"
	"io/fs"

	"github.com/loam-os/loam/partitions/fat/dirent"
)

// Link gives staged content a name in the directory by one write of one sector.
// If the place is the first after the directory's end and in the next sector,
// Link writes that sector first, then the sector that moves the end. The error
// wraps fs.ErrExist if the name exists, ErrDirFull if no place is free.
func (f *FS) Link(dir, name string, c Chain, size int64) error {
	return f.linkStaged(dir, name, c, size, func(d *directory) error {
		return f.link(d, name, dirent.AttrArchive, c.first, size)
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

func (f *FS) link(d *directory, name string, attr byte, first uint32, size int64) error {
	short, err := d.admit(name, nil)
	if err != nil {
		return err
	}

	slot, ok := d.place(dirent.SlotsFor(name))
	if !ok {
		return ErrDirFull
	}

	return f.insert(d, slot,
		append(dirent.LongSlots(name, short), dirent.ShortSlot(short, attr, first, size)...))
}

// admit checks whether the directory can have the name, and returns a short
// name for it. renamed is an entry to ignore.
func (d *directory) admit(name string, renamed *Entry) (dirent.ShortName, error) {
	if err := dirent.CheckName(name); err != nil {
		return dirent.ShortName{}, err
	}

	n := dirent.SlotsFor(name)
	switch {
	case n > perSector:
		return dirent.ShortName{}, fmt.Errorf("takes %d directory slots: a sector has %d",
			n, perSector)
	case d.uniform > 0 && n != d.uniform:
		return dirent.ShortName{}, fmt.Errorf("takes %d directory slots: in %s all take %d",
			n, d.path, d.uniform)
	}

	used := map[dirent.ShortName]bool{}
	for _, e := range d.entries {
		if renamed != nil && e.slot == renamed.slot {
			continue
		}
		if e.is(name) {
			return dirent.ShortName{}, fs.ErrExist
		}
		used[e.short] = true
	}

	return dirent.Shorten(name, func(s dirent.ShortName) bool { return used[s] })
}

// insert writes the set at a free place.
func (f *directories) insert(d *directory, at int, set []byte) error {
	copy(d.raw[at*dirent.SlotSize:], set)
	sector := at / perSector
	after := at + len(set)/dirent.SlotSize
	if after > d.end {
		// The set is followed by the directory's end: a slot that begins with 0.
		// The slots between the old end and the set are free.
		clear(d.raw[after*dirent.SlotSize : (after+perSector-1)/perSector*sectorSize])
		if after%perSector == 0 && after < d.slots() && d.at(after)[0] != 0 {
			clear(d.raw[after*dirent.SlotSize:][:sectorSize])
			if err := f.writeSector(d, after/perSector); err != nil {
				return err
			}
		}

		for i := d.end; i < at; i++ {
			d.at(i)[0] = dirent.Free
		}

		if before := d.end / perSector; d.end < at && before < sector {
			if err := f.writeSector(d, sector); err != nil {
				return err
			}
			sector = before // this one makes the set seen
		}
	}

	return f.writeSector(d, sector)
}

// writeSector writes a sector of the directory and flushes.
func (f *directories) writeSector(d *directory, sector int) error {
	at := int64(sector) * sectorSize
	off := f.offset(d.chain[at/f.clusterSize]) + at%f.clusterSize
	if err := f.disk.write(d.raw[at:at+sectorSize], off); err != nil {
		return err
	}
	return f.disk.sync()
}
