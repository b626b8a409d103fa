package fat

import (
	"bytes"
	"fmt"
	"io/fs"
	"slices"

	"github.com/loam-os/loam/partitions/fat/dirent"
)

// link adds an entry at the first free place.
func (d *directory) link(name string, attr byte, first uint32, size int64) error {
	short, err := d.admit(name, nil)
	if err != nil {
		return err
	}

	slot, ok := d.place(dirent.SlotsFor(name))
	if !ok {
		return ErrDirFull
	}

	return d.insert(slot,
		append(dirent.LongSlots(name, short), dirent.ShortSlot(short, attr, first, size)...))
}

// linkLast adds an entry as the last one, the first in its sector.
func (d *directory) linkLast(name string, first uint32, size int64) error {
	short, err := d.admit(name, nil)
	if err != nil {
		return err
	}

	at := d.lastSector() * perSector
	if at+perSector > d.slots() {
		return ErrDirFull
	}

	d.end = min(d.end, at) // What lies behind it was deleted.
	return d.insert(at,
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

// rename gives an entry another name that takes as many slots, and makes it
// read-only or not, by one write of one sector.
func (d *directory) rename(e Entry, to string, readOnly bool) error {
	if n := dirent.SlotsFor(to); n != e.slots {
		return fmt.Errorf("takes %d directory slots, it has %d", n, e.slots)
	}
	if e.crosses() {
		return fmt.Errorf("its directory slots lie in two sectors: no single write renames it")
	}

	short, err := d.admit(to, &e)
	if err != nil {
		return err
	}

	slot := d.at(e.last())
	copy(slot, short[:])
	slot[12] &^= 0x18 // the name's case, if it had no long one
	slot[11] &^= dirent.AttrReadOnly

	if readOnly {
		slot[11] |= dirent.AttrReadOnly
	}

	copy(d.raw[e.slot*dirent.SlotSize:], dirent.LongSlots(to, short))
	return d.writeSector(e.slot / perSector)
}

// point gives an entry the chain that begins with first, by one write of one
// sector.
func (d *directory) point(e Entry, first uint32, size int64) error {
	dirent.Point(d.at(e.last()), first, size)
	return d.writeSector(e.last() / perSector)
}

// unlink frees the slots of an entry. If they lie in two sectors, the one with
// the short name goes first.
func (d *directory) unlink(e Entry) error {
	for i := e.slot; i <= e.last(); i++ {
		d.at(i)[0] = dirent.Free
	}
	for sector := e.last() / perSector; sector >= e.slot/perSector; sector-- {
		if err := d.writeSector(sector); err != nil {
			return fmt.Errorf("%s: %w", e.Name, err)
		}
	}
	return nil
}

// insert writes the set at a free place.
func (d *directory) insert(at int, set []byte) error {
	copy(d.raw[at*dirent.SlotSize:], set)
	sector := at / perSector
	after := at + len(set)/dirent.SlotSize
	if after > d.end {
		// The set is followed by the directory's end: a slot that begins with 0.
		// The slots between the old end and the set are free.
		clear(d.raw[after*dirent.SlotSize : (after+perSector-1)/perSector*sectorSize])
		if after%perSector == 0 && after < d.slots() && d.at(after)[0] != 0 {
			clear(d.raw[after*dirent.SlotSize:][:sectorSize])
			if err := d.writeSector(after / perSector); err != nil {
				return err
			}
		}

		for i := d.end; i < at; i++ {
			d.at(i)[0] = dirent.Free
		}

		if before := d.end / perSector; d.end < at && before < sector {
			if err := d.writeSector(sector); err != nil {
				return err
			}
			sector = before // this one makes the set seen
		}
	}

	return d.writeSector(sector)
}

// tidy frees loose slots. In a uniform directory it also moves the end back to
// the first multiple of the slots of a name after the last entry.
func (d *directory) tidy() error {
	old := bytes.Clone(d.raw)
	for _, slot := range d.loose {
		d.at(slot)[0] = dirent.Free
	}

	if n := d.uniform; n > 0 {
		used := d.end
		for used > 0 && d.at(used - 1)[0] == dirent.Free {
			used--
		}

		end := min((used+n-1)/n*n, d.slots())
		for slot := used; slot < end; slot++ {
			d.at(slot)[0] = dirent.Free
		}

		clear(d.raw[end*dirent.SlotSize:])
	}

	// Backwards, with a flush after each: the slots behind the end are free
	// before the end moves there.
	for _, r := range slices.Backward(differing(d.raw, old)) {
		for at := r.at + r.n - sectorSize; at >= r.at; at -= sectorSize {
			if err := d.writeSector(at / sectorSize); err != nil {
				return err
			}
		}
	}

	return nil
}

// writeSector writes a sector of the directory and flushes.
func (d *directory) writeSector(sector int) error {
	at := int64(sector) * sectorSize
	off := d.fats.offset(d.chain[at/d.fats.clusterSize]) + at%d.fats.clusterSize
	if err := d.fats.disk.write(d.raw[at:at+sectorSize], off); err != nil {
		return err
	}
	return d.fats.disk.sync()
}
