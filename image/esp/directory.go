package esp

import (
	"encoding/binary"
	"slices"
)

// Attributes of directory entries.
const (
	attrDirectory = 0x10
	attrArchive   = 0x20
	attrLongName  = 0x0f
)

// epoch is the date of all entries, 1980-01-01, FAT's first; their time is 0, midnight.
const epoch = 1<<5 | 1

// content is what the node's clusters hold, without the zeros at the end.
func (n *node) content() []byte {
	if !n.dir {
		return n.data
	}
	var b []byte
	if n.parent != nil {
		up := n.parent.first
		if n.parent.parent == nil {
			up = 0 // the root has no number here
		}
		b = append(b, entry(pad83(".", ""), attrDirectory, n.first, 0)...)
		b = append(b, entry(pad83("..", ""), attrDirectory, up, 0)...)
	}
	for _, c := range n.children {
		attr, size := byte(attrArchive), len(c.data)
		if c.dir {
			attr = attrDirectory
		}
		b = append(b, longName(c)...)
		b = append(b, entry(c.short, attr, c.first, uint32(size))...)
	}
	return b
}

// entry encodes a short directory entry.
func entry(short [11]byte, attr byte, first, size uint32) []byte {
	b, le := make([]byte, entrySize), binary.LittleEndian
	copy(b, short[:])
	b[11] = attr
	for _, date := range []int{16, 18, 24} { // created, read, written
		le.PutUint16(b[date:], epoch)
	}
	le.PutUint16(b[20:], uint16(first>>16))
	le.PutUint16(b[26:], uint16(first))
	le.PutUint32(b[28:], size)
	return b
}

// longName encodes the entries that precede a short one whose name is not the file's: 13 UTF-16 units each, the last part first, the
// rest filled with a NUL and then 0xffff.
func longName(n *node) []byte {
	if n.slots() == 1 {
		return nil
	}
	parts := n.slots() - 1
	units := make([]uint16, 13*parts)
	for i := range units {
		switch {
		case i < len(n.name):
			units[i] = uint16(n.name[i])
		case i > len(n.name):
			units[i] = 0xffff
		}
	}
	var b []byte
	for part := parts; part >= 1; part-- {
		e := make([]byte, entrySize)
		e[0], e[11], e[13] = byte(part), attrLongName, checksum(n.short)
		if part == parts {
			e[0] |= 0x40
		}
		for i, at := range slices.Concat(span(1, 5), span(14, 6), span(28, 2)) {
			binary.LittleEndian.PutUint16(e[at:], units[13*(part-1)+i])
		}
		b = append(b, e...)
	}
	return b
}

// span is n offsets of UTF-16 units from start on.
func span(start, n int) (offsets []int) {
	for i := range n {
		offsets = append(offsets, start+2*i)
	}
	return offsets
}

// checksum ties long name entries to their short entry.
func checksum(short [11]byte) (sum byte) {
	for _, c := range short {
		sum = (sum>>1 | sum<<7) + c
	}
	return sum
}
