// Package dirent encodes and decodes the entries of FAT directories
// (Microsoft's "FAT: General Overview of On-Disk Format", 1.03): sets of slots
// of 32 bytes, of which the last has the 8.3 name, size and first cluster of a
// file, and those before it its long name.
package dirent

import (
	"bytes"
	"encoding/binary"
	"unicode/utf16"
)

const (
	SlotSize = 32   // bytes
	Free     = 0xe5 // first byte of a slot that was used; 0: this and all after it never were
)

// Attributes, byte 11 of a slot.
const (
	AttrReadOnly  = 0x01
	AttrLabel     = 0x08
	AttrDirectory = 0x10
	AttrArchive   = 0x20
	AttrLong      = 0x0f // a part of a long name, if nothing else is set: so does EDK2 read it
)

// epoch is the date of all entries, 1980-01-01, FAT's first: nothing here
// depends on a clock.
const epoch = 1<<5 | 1

// ShortSlot encodes the last slot of a set.
func ShortSlot(short ShortName, attr byte, first uint32, size int64) []byte {
	b := make([]byte, SlotSize)
	copy(b, short[:])
	b[11] = attr

	for _, date := range []int{16, 18, 24} { // created, read, written
		binary.LittleEndian.PutUint16(b[date:], epoch)
	}

	Point(b, first, size)
	return b
}

// DotSlots encodes the entries . and .. of a directory; up is the first cluster
// of the one above it, 0 for the root.
func DotSlots(first, up uint32) []byte {
	return append(ShortSlot(Pad(".", ""), AttrDirectory, first, 0),
		ShortSlot(Pad("..", ""), AttrDirectory, up, 0)...)
}

// Point sets first cluster and size of a short slot.
func Point(slot []byte, first uint32, size int64) {
	binary.LittleEndian.PutUint16(slot[20:], uint16(first>>16))
	binary.LittleEndian.PutUint16(slot[26:], uint16(first))
	binary.LittleEndian.PutUint32(slot[28:], uint32(size))
}

// unitOffsets are where a long name's slot has its 13 UTF-16 units.
func unitOffsets() [13]int { return [13]int{1, 3, 5, 7, 9, 14, 16, 18, 20, 22, 24, 28, 30} }

// LongSlots encodes the slots before the short one, last part of the name
// first; the last part ends with a NUL and is filled with 0xffff. A name that
// is the short name has none.
func LongSlots(name string, short ShortName) []byte {
	parts := SlotsFor(name) - 1
	b := make([]byte, parts*SlotSize)
	for part := 1; part <= parts; part++ {
		s := b[(parts-part)*SlotSize:]
		s[0] = byte(part)
		s[11] = AttrLong
		s[13] = short.checksum()

		if part == parts {
			s[0] |= 0x40
		}

		for i, at := range unitOffsets() {
			unit := uint16(0xffff)
			switch n := 13*(part-1) + i; {
			case n < len(name):
				unit = uint16(name[n])
			case n == len(name):
				unit = 0
			}
			binary.LittleEndian.PutUint16(s[at:], unit)
		}
	}

	return b
}

// LongName reads the long name whose slots end before, the short name's slot
// being next. No slots: they do not fit each other or it.
func LongName(before []byte, short ShortName) (name string, slots int) {
	var units []uint16
	for part := 1; part <= 20 && len(before) >= part*SlotSize; part++ {
		s := before[len(before)-part*SlotSize:]
		if s[0]&^0x40 != byte(part) || s[13] != short.checksum() {
			return "", 0
		}

		for _, at := range unitOffsets() {
			units = append(units, binary.LittleEndian.Uint16(s[at:]))
		}

		if s[0]&0x40 == 0 {
			continue
		}

		for i, u := range units {
			if u == 0 {
				units = units[:i]
				break
			}
		}

		if len(units) == 0 {
			return "", 0
		}

		return string(utf16.Decode(units)), part
	}

	return "", 0
}

// IsLong reports whether a slot is a part of a long name.
func IsLong(slot []byte) bool { return slot[11] == AttrLong }

// IsDots reports whether a short slot is one of the entries . and .., which are
// no files.
func IsDots(short []byte) bool {
	return bytes.HasPrefix(short, []byte(".          ")) ||
		bytes.HasPrefix(short, []byte("..         "))
}
