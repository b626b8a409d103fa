package firmware

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf16"
)

// today is the FAT date of 2026-01-01, when all of this happens, noon the time
// in units of two seconds.
const (
	today = (2026-1980)<<9 | 1<<5 | 1
	noon  = 12 << 11
)

// rename does what EDK2 does: it marks the old set deleted, puts another at the
// end of the directory, even if there is room before, gives it a new short
// name, and updates the time in the entries of the directories on the way.
func (l Loader) rename(d directory, e Entry, to string) error {
	short, err := d.shorten(to, e)
	if err != nil {
		return err
	}

	set := longSlots(to, checksum(short))
	last := bytes.Clone(e.short().raw)
	copy(last, short)
	last[11] |= attrArchive
	binary.LittleEndian.PutUint16(last[18:], today)

	set = append(set, last)
	if len(d.free) < len(set) {
		return errors.New("the firmware would make the directory longer")
	}

	changed := removed(e)
	for i, raw := range set {
		changed = append(changed, slot{d.free[i], raw})
	}

	for _, s := range d.way {
		changed = append(changed, slot{s.at, touched(s.raw)})
	}

	return l.write(changed)
}

// removed marks a set deleted. The parts of the long name get the checksum of
// the short one with that mark.
func removed(e Entry) (changed []slot) {
	gone := bytes.Clone(e.short().raw)
	gone[0] = deleted
	for _, s := range e.slots {
		raw := bytes.Clone(s.raw)
		raw[0] = deleted
		if raw[11] == attrLong {
			raw[13] = checksum(gone)
		}
		changed = append(changed, slot{s.at, raw})
	}
	return changed
}

// write writes as EDK2's cache does: each sector once, in the order of the
// disk.
func (l Loader) write(changed []slot) error {
	sectors := Sectors{}
	for _, s := range changed {
		n := s.at / SectorSize
		if sectors[n] == nil {
			sectors[n] = make([]byte, SectorSize)
			if _, err := l.disk.ReadAt(sectors[n], n*SectorSize); err != nil {
				return err
			}
		}
		copy(sectors[n][s.at%SectorSize:], s.raw)
	}

	for _, n := range slices.Sorted(maps.Keys(sectors)) {
		if _, err := l.disk.WriteAt(sectors[n], n*SectorSize); err != nil {
			return err
		}
	}

	return nil
}

// touched is a directory's slot after something in it was renamed: at noon, or
// two seconds after the last time.
func touched(raw []byte) []byte {
	le := binary.LittleEndian
	b := bytes.Clone(raw)
	b[11] |= attrArchive
	le.PutUint16(b[18:], today)
	le.PutUint16(b[22:], max(noon, le.Uint16(b[22:])+1))
	le.PutUint16(b[24:], today)

	return b
}

// shorten makes a short name: six characters, ~ and the first number that no
// other entry has.
func (d directory) shorten(name string, renamed Entry) ([]byte, error) {
	dot := strings.LastIndexByte(name, '.')
	main := name[:dot]
	ext := name[dot+1:]
	if strings.ContainsAny(name[:min(8, dot)], ". +,;=[]") || len(main) < 9 || len(ext) > 3 {
		return nil, fmt.Errorf("short name of %s: not one of the names that this is for", name)
	}

	for n := byte('1'); n <= '4'; n++ {
		short := fmt.Appendf(nil, "%s~%c%-3s", strings.ToUpper(main[:6]), n, strings.ToUpper(ext))
		if !slices.ContainsFunc(d.entries, func(e Entry) bool {
			return e.short().at != renamed.short().at && bytes.Equal(e.short().raw[:11], short)
		}) {
			return short, nil
		}
	}

	return nil, fmt.Errorf("short name of %s: the firmware would take one with a checksum", name)
}

// longSlots are the parts of a long name, the last part first.
func longSlots(name string, sum byte) [][]byte {
	units := append(utf16.Encode([]rune(name)), 0)
	parts := (len(units) + 11) / 13 // no part for the 0 alone
	for len(units) < 13*parts {
		units = append(units, 0xffff)
	}

	var set [][]byte
	for n := parts; n > 0; n-- {
		b := make([]byte, slotSize)
		b[0] = byte(n)
		b[11] = attrLong
		b[13] = sum

		if n == parts {
			b[0] |= 0x40
		}

		for i, at := range unitsAt() {
			binary.LittleEndian.PutUint16(b[at:], units[13*(n-1)+i])
		}

		set = append(set, b)
	}

	return set
}

// isDate: EDK2 renames no file that was made or written on a day 0 or in a
// month 0.
func isDate(field []byte) bool {
	date := binary.LittleEndian.Uint16(field)
	return date&31 != 0 && date>>5&15 >= 1 && date>>5&15 <= 12
}
