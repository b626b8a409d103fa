package fat

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/loam-os/loam/partitions/fat/dirent"
)

// maxDirectory in bytes: 65536 slots, by the specification.
const maxDirectory = 2 << 20

// Entry is a file or directory in a directory.
type Entry struct {
	Name  string // the long name, or the short one in its display case
	Short string // 8.3, in upper case
	Dir   bool
	Size  int64

	// Its long name is incomplete or another entry's: firmware too finds it
	// under its short name only.
	Orphan bool

	short dirent.ShortName
	first uint32
	slot  int // the first of its set, in the directory
	slots int
}

// is says whether the name means this entry: FAT does not tell upper case from
// lower.
func (e Entry) is(name string) bool {
	return strings.EqualFold(e.Name, name) || strings.EqualFold(e.Short, name)
}

// last is the slot of the short name, with first cluster and size.
func (e Entry) last() int { return e.slot + e.slots - 1 }

// crosses says whether the set lies in two sectors.
func (e Entry) crosses() bool { return e.slot/perSector != e.last()/perSector }

// directory is a directory in memory. It writes what is changed in it, sector
// by sector.
type directory struct {
	fats    *fats
	path    string
	uniform int // slots of each name, if the directory is [Uniform]; else 0
	first   uint32
	chain   []uint32
	raw     []byte // all its slots
	entries []Entry
	end     int   // the first slot that never was used, or the number of all
	loose   []int // slots with parts of long names that belong to no entry
}

// readDirectory reads the directory whose clusters are in the chain.
func (f *directories) readDirectory(path string, chain []uint32) (*directory, error) {
	size := int64(len(chain)) * f.clusterSize
	if size > maxDirectory {
		return nil, fmt.Errorf("directory of %d bytes: at most %d", size, maxDirectory)
	}

	d := &directory{
		fats:    &f.fats,
		path:    path,
		uniform: f.slotsIn(path),
		first:   chain[0],
		chain:   chain,
		raw:     make([]byte, size),
	}

	for _, r := range runs(chain) {
		at := int64(r.at) * f.clusterSize
		err := f.disk.read(d.raw[at:at+int64(r.n)*f.clusterSize], f.offset(chain[r.at]))
		if err != nil {
			return nil, err
		}
	}

	d.parse()
	return d, nil
}

// slotsIn is the slots of each name in the directory, 0 if it is not uniform.
func (f *directories) slotsIn(path string) int {
	for _, u := range f.uniform {
		if strings.EqualFold(strings.Join(split(path), "/"), u.Dir) {
			return u.Slots
		}
	}
	return 0
}

// hasDot reports whether a directory below the root begins with its entry of
// itself, as all do.
func (d *directory) hasDot() bool {
	dot := dirent.DotSlots(d.first, 0)[:dirent.SlotSize]
	first := d.at(0)
	return bytes.Equal(first[:11], dot[:11]) && bytes.Equal(first[20:22], dot[20:22]) &&
		bytes.Equal(first[26:28], dot[26:28])
}

func (d *directory) slots() int { return len(d.raw) / dirent.SlotSize }

func (d *directory) at(slot int) []byte { return d.raw[slot*dirent.SlotSize:][:dirent.SlotSize] }

// parse finds the entries.
func (d *directory) parse() {
	long := 0 // the parts of long names before slot i
	i := 0
	for ; i < d.slots() && d.at(i)[0] != 0; i++ {
		s := d.at(i)
		switch {
		case s[0] != dirent.Free && dirent.IsLong(s):
			long++
			continue
		case s[0] == dirent.Free || s[11]&dirent.AttrLabel != 0 || dirent.IsDots(s):
			d.loosen(i-long, i)
		default:
			e := decodeEntry(d.raw[(i-long)*dirent.SlotSize:i*dirent.SlotSize], s)
			e.slot = i + 1 - e.slots
			e.Orphan = e.slots == 1 && long > 0
			if !e.Orphan { // else the parts stay: they are what tells that it is one
				d.loosen(i-long, e.slot)
			}

			d.entries = append(d.entries, e)
		}

		long = 0
	}

	d.end = i
	d.loosen(i-long, i)
}

func (d *directory) loosen(from, to int) {
	for ; from < to; from++ {
		d.loose = append(d.loose, from)
	}
}

// decodeEntry reads a short slot and the parts of long names before it.
func decodeEntry(before, s []byte) Entry {
	le := binary.LittleEndian
	e := Entry{
		short: dirent.ShortName(s[:11]),
		Dir:   s[11]&dirent.AttrDirectory != 0,
		Size:  int64(le.Uint32(s[28:])),
		first: uint32(le.Uint16(s[20:]))<<16 | uint32(le.Uint16(s[26:])),
		slots: 1,
	}
	if e.Dir {
		e.Size = 0 // no meaning
	}

	e.Short = e.short.String()
	e.Name = e.short.WithCase(s[12])
	if name, parts := dirent.LongName(before, e.short); parts > 0 {
		e.Name = name
		e.slots = parts + 1
	}

	return e
}

// find is the entry that the name means.
func (d *directory) find(name string) (Entry, bool) {
	for _, e := range d.entries {
		if e.is(name) {
			return e, true
		}
	}
	return Entry{}, false
}

// place returns the first slot at which a set of n fits into one sector. A set
// starts at a multiple of its length rounded up to a power of two, so that free
// places keep their size, in a uniform directory above all.
func (d *directory) place(n int) (slot int, ok bool) {
	align := 1
	for align < n {
		align *= 2
	}
	for slot = 0; slot+n <= d.slots(); slot += align {
		if d.free(slot, n) {
			return slot, true
		}
	}
	return 0, false
}

func (d *directory) free(slot, n int) bool {
	for i := slot; i < slot+n && i < d.end; i++ {
		if d.at(i)[0] != dirent.Free {
			return false
		}
	}
	return true
}
