package fat

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/loam-os/loam/hint"
)

// change sets FAT entries of clusters, whose FATs must be equal, in both FATs
// and flushes.
func (f *fats) change(clusters []uint32, next func(i int) uint32) error {
	if f.second != nil {
		return hint.With(errors.New("the FATs differ"), "Reclaim makes them equal")
	}

	old := bytes.Clone(f.fat)
	for i, c := range clusters {
		f.fat.set(c, next(i))
	}

	for _, n := range []int64{1, 0} { // firmware reads the first: it changes last
		if err := f.writeFAT(n, old); err != nil {
			return err
		}
	}

	return f.writeInfo()
}

// writeFAT writes the sectors of the FAT that are not as in old.
func (f *fats) writeFAT(n int64, old table) error {
	for _, r := range differing(f.fat, old) {
		if err := f.disk.write(f.fat[r.at:r.at+r.n], f.fatAt(n)+int64(r.at)); err != nil {
			return fmt.Errorf("FAT %d: %w", n+1, err)
		}
	}
	return nil
}

// verifyFAT compares both FATs on the disk with ours in the sectors of the
// clusters.
func (f *fats) verifyFAT(clusters []uint32) error {
	sector := make([]byte, sectorSize)
	for n := range int64(2) {
		last := -1
		for _, c := range clusters {
			at := int(c) * 4 / sectorSize * sectorSize
			if at == last {
				continue
			}

			last = at
			if err := f.disk.read(sector, f.fatAt(n)+int64(at)); err != nil {
				return fmt.Errorf("FAT %d: %w", n+1, err)
			}

			if !bytes.Equal(sector, f.fat[at:at+sectorSize]) {
				return fmt.Errorf("FAT %d: sector at offset %d does not read back as written",
					n+1, at)
			}
		}
	}

	return nil
}

// differing returns the runs of sectors in which a and b, equally long, differ.
func differing(a, b []byte) (list []run) {
	for at := 0; at < len(a); at += sectorSize {
		if bytes.Equal(a[at:at+sectorSize], b[at:at+sectorSize]) {
			continue
		}
		if n := len(list) - 1; n >= 0 && list[n].at+list[n].n == at {
			list[n].n += sectorSize
		} else {
			list = append(list, run{at, sectorSize})
		}
	}
	return list
}

// writeInfo updates the FSInfo sector, if present, and flushes. The sector is a
// hint: a torn write does no harm, so it shares the FATs' flush.
func (f *fats) writeInfo() error {
	if f.info == 0 {
		return f.disk.sync()
	}

	b := make([]byte, sectorSize)
	le := binary.LittleEndian
	if err := f.disk.read(b, f.info); err != nil {
		return fmt.Errorf("FSInfo: %w", err)
	}

	free := f.freeClusters()
	first := uint32(2)
	for first < f.last() && f.fat.next(first) != 0 {
		first++
	}

	known := bytes.HasPrefix(b, []byte("RRaA")) && bytes.HasPrefix(b[484:], []byte("rrAa"))
	if known && (le.Uint32(b[488:]) != free || le.Uint32(b[492:]) != first) {
		le.PutUint32(b[488:], free)
		le.PutUint32(b[492:], first)
		if err := f.disk.write(b, f.info); err != nil {
			return fmt.Errorf("FSInfo: %w", err)
		}
	}

	return f.disk.sync()
}

// repairFATs writes the FAT that the survey found right: first to FAT 1, while
// FAT 2 still has the chains that FAT 1 lacks.
func (f *fats) repairFATs(s *survey) error {
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
