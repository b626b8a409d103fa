package fat

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/loam-os/loam/partitions/fat/dirent"
)

// Reclaim frees clusters that no entry refers to, staged ones too, and the slots
// of lost long names. It makes both FATs equal, and the boot sector and its copy.
// The slots after the last entry of a [Uniform] directory go back to the writer
// that only appends.
// Reclaim keeps what an entry refers to: it takes each chain from FAT 1 if it
// is intact there, else from FAT 2 if it exists there. A chain that goes on to
// a free cluster in both FATs ends before that cluster, so that it never
// continues in a new file. If a directory is unreadable, its references are
// unknown: Reclaim then writes nothing and returns an error. It writes nothing
// either if there is nothing to do.
func (f *FS) Reclaim() error {
	s := f.survey()
	if s.partial {
		return fmt.Errorf("reclaim clusters: not all of the tree can be read: %v", s.broken)
	}
	if err := f.repairBoot(); err != nil {
		return err
	}
	if err := f.writeFATs(s); err != nil {
		return fmt.Errorf("reclaim clusters: %w", err)
	}

	for _, d := range s.dirs {
		if err := f.tidy(d); err != nil {
			return fmt.Errorf("reclaim slots of /%s: %w", d.path, err)
		}
	}

	if err := f.writeInfo(); err != nil {
		return fmt.Errorf("reclaim clusters: %w", err)
	}

	return nil
}

// repairBoot makes the boot sector as its copy is, or the copy as the boot
// sector is, if one of them is damaged. Firmware reads the boot sector only.
func (f *FS) repairBoot() error {
	from, to := int64(0), f.boot.copyAt
	switch {
	case f.copyUsed != nil:
		from, to = f.boot.copyAt, 0
	case f.boot.copyErr == nil:
		return nil
	case to == 0:
		to = copySector * f.sectorSize
	}

	b := make([]byte, sectorSize)
	err := f.disk.read(b, from)
	if err == nil {
		err = f.disk.write(b, to)
	}
	if err == nil {
		err = f.disk.sync()
	}
	if err != nil {
		return fmt.Errorf("repair the boot sector: %w", err)
	}

	f.copyUsed = nil
	f.boot.copyErr = nil
	return nil
}

// writeFATs writes the FAT that the survey found right: first to FAT 1, while
// FAT 2 still has the chains that FAT 1 lacks.
func (f *FS) writeFATs(s *survey) error {
	clear(f.staged)
	leaked := s.leaked()
	if len(leaked)+len(s.repair)+len(s.cut) == 0 && f.second == nil {
		return nil
	}

	old := [2]table{bytes.Clone(f.fat), f.second}
	if f.second == nil {
		old[1] = old[0]
	}
	if f.fat[0] != f.media {
		copy(f.fat[:8], f.second) // Open saw that FAT 2 begins as it should
	}

	for _, c := range leaked {
		f.fat.set(c, 0)
	}

	for _, c := range s.cut {
		f.fat.set(c, endOfChain)
	}

	for _, chain := range s.repair {
		for _, c := range chain {
			f.fat.set(c, f.second.next(c))
		}
	}

	for n := range old {
		if err := f.writeFAT(int64(n), old[n]); err != nil {
			return err
		}
		if err := f.disk.sync(); err != nil {
			return err
		}
	}

	f.second = nil
	return nil
}

// tidy frees loose slots. In a uniform directory it also moves the end back to
// the first multiple of the slots of a name after the last entry.
func (f *directories) tidy(d *directory) error {
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
			if err := f.writeSector(d, at/sectorSize); err != nil {
				return err
			}
		}
	}

	return nil
}
