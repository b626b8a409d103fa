package fat

import (
	"fmt"
	"io/fs"
)

// Link gives staged content a name in the directory: one write of one sector. If the place is the first after the directory's end and in
// the next sector, that sector comes first, and then the one that moves the end. It is an error that wraps fs.ErrExist if the name is
// there, ErrDirFull if there is no place.
func (f *FS) Link(dir, name string, c Chain, size int64) error {
	if size != c.size || c.first != 0 && f.staged[c.first] != f.need(size) {
		return fmt.Errorf("link %s in /%s: %d bytes are not what was staged, or it is linked", name, dir, size)
	}
	d, err := f.directory(dir)
	if err == nil {
		err = f.link(d, name, attrArchive, c.first, size)
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
	slot, ok := d.place(slotsFor(name))
	if !ok {
		return ErrDirFull
	}
	return f.insert(d, slot, append(longSlots(name, short), shortSlot(short, attr, first, size)...))
}

// admit says whether the directory can have the name, and gives it a short one. The entry that is to be renamed does not count.
func (d *directory) admit(name string, renamed *Entry) (shortName, error) {
	if err := checkName(name); err != nil {
		return shortName{}, err
	}
	n := slotsFor(name)
	if n > perSector || d.isBoot() && n != bootSlots {
		return shortName{}, fmt.Errorf("takes %d directory slots: a sector has %d, and in %s all take %d", n, perSector, BootDir, bootSlots)
	}
	used := map[shortName]bool{}
	for _, e := range d.entries {
		if renamed != nil && e.slot == renamed.slot {
			continue
		}
		if e.is(name) {
			return shortName{}, fs.ErrExist
		}
		used[e.short] = true
	}
	return shorten(name, func(s shortName) bool { return used[s] })
}

// insert writes the set at a free place.
func (f *FS) insert(d *directory, at int, set []byte) error {
	copy(d.raw[at*slotSize:], set)
	sector, after := at/perSector, at+len(set)/slotSize
	if after > d.end {
		// What follows the set is the directory's end: a slot that begins with 0. What was between the end and the set is free.
		clear(d.raw[after*slotSize : (after+perSector-1)/perSector*sectorSize])
		if after%perSector == 0 && after < d.slots() && d.at(after)[0] != 0 {
			clear(d.raw[after*slotSize:][:sectorSize])
			if err := f.writeSector(d, after/perSector); err != nil {
				return err
			}
		}
		for i := d.end; i < at; i++ {
			d.at(i)[0] = slotFree
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
func (f *FS) writeSector(d *directory, sector int) error {
	at := int64(sector) * sectorSize
	off := f.offset(d.chain[at/f.clusterSize]) + at%f.clusterSize
	if err := f.disk.write(d.raw[at:at+sectorSize], off); err != nil {
		return err
	}
	return f.disk.sync()
}
