package fat

import (
	"fmt"
)

// Report is what Check found. Paths are without the leading slash.
type Report struct {
	BootSector error       // why its copy is used
	BootCopy   error       // why that could not be used
	FATsDiffer int         // clusters for which FAT 2 says something else than FAT 1
	Crossed    [][2]string // pairs of paths that share clusters
	Broken     []string    // path and the fault in its chain in FAT 1, which firmware reads

	// clusters that are allocated, and no entry refers to them: staged ones too
	Leaked     int
	Dirty      []string // who says that the file system was not unmounted, or had errors
	Straddling []string // paths whose directory slots lie in two sectors
	Orphans    []string // paths of entries with an incomplete long name
	LooseSlots int      // parts of long names that belong to no entry

	// Of a [Uniform] directory, how many entries it has place for: in all for
	// Link, and after its end for the writer that only appends.
	Places, PlacesAtEnd int
}

// Clean says whether there is nothing to repair or to report.
func (r Report) Clean() bool {
	return r.BootSector == nil && r.BootCopy == nil &&
		r.FATsDiffer == 0 && r.Leaked == 0 && r.LooseSlots == 0 &&
		len(r.Crossed)+len(r.Broken)+len(r.Dirty)+len(r.Straddling)+len(r.Orphans) == 0
}

// Check looks at everything that is not content of files, and writes nothing.
func (f *FS) Check() Report {
	s := f.survey()
	r := Report{
		BootSector: f.boot.copyUsed,
		BootCopy:   f.boot.copyErr,
		Crossed:    s.crossed,
		Broken:     s.broken,
		Dirty:      f.dirty(),
		Leaked:     len(s.leaked()),
	}

	for c := uint32(2); c <= f.last() && f.second != nil; c++ {
		if f.second.next(c) != f.fat.next(c) {
			r.FATsDiffer++
		}
	}

	for _, d := range s.dirs {
		r.add(d)
	}

	return r
}

func (r *Report) add(d *directory) {
	r.LooseSlots += len(d.loose)
	for _, e := range d.entries {
		if e.crosses() {
			r.Straddling = append(r.Straddling, join(d.path, e.Name))
		}
		if e.Orphan {
			r.Orphans = append(r.Orphans, join(d.path, e.Name))
		}
	}

	if d.uniform == 0 {
		return
	}

	for slot := 0; slot+d.uniform <= d.slots(); slot += d.uniform {
		if d.free(slot, d.uniform) {
			r.Places++
		}
	}

	r.PlacesAtEnd = (d.slots() - d.end) / d.uniform
}

// dirty reads the marks of Linux in the boot sector, and of Windows in the
// FATs.
func (f *fats) dirty() (by []string) {
	if f.state&1 != 0 {
		by = append(by, "boot sector (offset 65): it was not unmounted")
	}

	for i, t := range []table{f.fat, f.second} {
		if t == nil {
			continue
		}
		if t.next(1)&0x0800_0000 == 0 {
			by = append(by, fmt.Sprintf("FAT %d: it was not unmounted", i+1))
		}
		if t.next(1)&0x0400_0000 == 0 {
			by = append(by, fmt.Sprintf("FAT %d: a driver met read or write errors", i+1))
		}
	}

	return by
}
