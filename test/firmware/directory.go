package firmware

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
)

const slotSize = 32

// Attributes of a slot.
const (
	attrReadOnly  = 0x01
	attrLabel     = 0x08 // also of the parts of long names
	attrDirectory = 0x10
	attrArchive   = 0x20
	attrLong      = 0x0f
)

// deleted is the first byte of a slot that is free.
const deleted = 0xe5

// slot is 32 bytes of a directory, with their offset on the disk.
type slot struct {
	at  int64
	raw []byte
}

// Entry is a file in a directory.
type Entry struct {
	Name string // the long name, or the short one if the long name is incomplete or absent
	Size int64

	// Orphan says that the long name is incomplete: the firmware knows the file
	// by its short name, in which systemd-boot finds no tries.
	Orphan bool

	first int64
	slots []slot // the short name's is the last
}

// short is the slot that has everything but the long name.
func (e Entry) short() slot { return e.slots[len(e.slots)-1] }

// directory is a directory in memory: entries, the places of the slots that
// follow its end, and the slots of the directories on the way to it.
type directory struct {
	first   int64 // cluster
	entries []Entry
	free    []int64
	way     []slot
}

// list reads a directory. Its end is a slot that begins with 0, unless that
// slot has the attribute of labels and long names.
func (l Loader) list(first int64) (directory, error) {
	d := directory{first: first}
	clusters, err := l.chain(first)
	if err != nil {
		return d, err
	}

	var before []slot
	ended := false
	for _, at := range clusters {
		var b []byte
		if !ended {
			b = make([]byte, l.cluster)
			if _, err := l.disk.ReadAt(b, at); err != nil {
				return d, err
			}
		}

		for off := int64(0); off < l.cluster; off += slotSize {
			if ended || (b[off] == 0 && b[off+11]&attrLabel == 0) {
				ended = true
				d.free = append(d.free, at+off)
				continue
			}
			s := slot{at + off, b[off:][:slotSize]}
			if s.raw[0] != deleted && s.raw[11]&attrLabel == 0 {
				d.entries = append(d.entries, entryOf(before, s))
			}
			before = append(before, s)
		}
	}

	return d, nil
}

// entryOf reads backwards from the short name: parts of a long name count if
// they have its checksum and their number, up to the last part.
func entryOf(before []slot, s slot) Entry {
	le := binary.LittleEndian
	e := Entry{
		Name:  shortName(s.raw),
		Size:  int64(le.Uint32(s.raw[28:])),
		first: int64(le.Uint16(s.raw[20:]))<<16 | int64(le.Uint16(s.raw[26:])),
		slots: []slot{s},
	}

	sum := checksum(s.raw)
	units := []uint16(nil)
	for n := 1; n <= len(before); n++ {
		part := before[len(before)-n]
		if part.raw[0]&^0x40 != byte(n) || part.raw[11] != attrLong || part.raw[13] != sum {
			break
		}

		for _, at := range unitsAt() {
			units = append(units, le.Uint16(part.raw[at:]))
		}

		if part.raw[0]&0x40 != 0 {
			units = append(units, 0)
			e.Name = string(utf16.Decode(units[:slices.Index(units, 0)]))
			e.slots = slices.Clone(before[len(before)-n:])
			e.slots = append(e.slots, s)
			return e
		}
	}

	last := len(before) - 1
	e.Orphan = last >= 0 && before[last].raw[0] != deleted && before[last].raw[11] == attrLong
	return e
}

// unitsAt is where a part of a long name has its 13 units of UTF-16.
func unitsAt() [13]int { return [13]int{1, 3, 5, 7, 9, 14, 16, 18, 20, 22, 24, 28, 30} }

func shortName(raw []byte) string {
	name := strings.TrimRight(string(raw[:8]), " ")
	if ext := strings.TrimRight(string(raw[8:11]), " "); ext != "" {
		name += "." + ext
	}
	return name
}

// checksum of a short name, which the parts of the long one repeat.
func checksum(short []byte) (sum byte) {
	for _, c := range short[:11] {
		sum = (sum>>1 | sum<<7) + c
	}
	return sum
}

// bootDir is \EFI\Linux.
func (l Loader) bootDir() (directory, error) { return l.enter("EFI", "Linux") }

// File is the content of a file in a directory of the root.
func (l Loader) File(path string) ([]byte, error) {
	names := strings.Split(path, "/")
	d, err := l.enter(names[:len(names)-1]...)
	if err != nil {
		return nil, err
	}

	i := slices.IndexFunc(d.entries, func(e Entry) bool {
		return strings.EqualFold(e.Name, names[len(names)-1])
	})
	if i < 0 {
		return nil, fmt.Errorf("no file %s", path)
	}

	return l.Read(d.entries[i])
}

func (l Loader) enter(path ...string) (directory, error) {
	d, err := l.list(l.root)
	for _, name := range path {
		if err != nil {
			return d, err
		}

		i := slices.IndexFunc(d.entries, func(e Entry) bool {
			return e.short().raw[11]&attrDirectory != 0 && strings.EqualFold(e.Name, name)
		})
		if i < 0 {
			return directory{}, fmt.Errorf("no directory %s", name)
		}

		found := d.entries[i]
		way := d.way
		d, err = l.list(found.first)
		d.way = append(way, found.short())
	}

	return d, err
}
