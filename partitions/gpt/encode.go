package gpt

import (
	"encoding/binary"
	"hash/crc32"
	"unicode/utf16"

	"github.com/google/uuid"
)

const (
	signature  = "EFI PART"
	revision   = 0x00010000
	headerSize = 92 // bytes covered by the header's checksum
	entrySize  = 128
	arraySize  = MaxPartitions * entrySize // 16 KiB: a multiple of both sector sizes
)

// header is a GPT header; positions are in sectors. Offsets in the comments are
// bytes in the sector.
type header struct {
	self        uint64 // 24
	other       uint64 // 32: where the other copy's header is
	firstUsable uint64 // 40
	lastUsable  uint64 // 48, inclusive
	diskGUID    uuid.UUID
	array       uint64 // 72
	arrayCRC    uint32 // 88
}

// header makes the header of one copy of the table.
func (t Table) header(c Copy, arrayCRC uint32) header {
	sector := uint64(t.SectorSize)
	last := uint64(t.DiskSize/int64(t.SectorSize)) - 1
	h := header{
		self:        1,
		other:       last,
		array:       2,
		diskGUID:    t.DiskGUID,
		arrayCRC:    arrayCRC,
		firstUsable: uint64(t.firstUsable()) / sector,
		lastUsable:  uint64(t.endUsable())/sector - 1,
	}

	if c == Backup {
		h.self = last
		h.other = 1
		h.array = last - arraySize/sector
	}

	return h
}

// encode makes the header's sector.
func (h header) encode(sectorSize int) []byte {
	b := make([]byte, sectorSize)
	le := binary.LittleEndian
	copy(b, signature)
	le.PutUint32(b[8:], revision)
	le.PutUint32(b[12:], headerSize)
	le.PutUint64(b[24:], h.self)
	le.PutUint64(b[32:], h.other)
	le.PutUint64(b[40:], h.firstUsable)
	le.PutUint64(b[48:], h.lastUsable)
	PutGUID(b[56:], h.diskGUID)
	le.PutUint64(b[72:], h.array)
	le.PutUint32(b[80:], MaxPartitions)
	le.PutUint32(b[84:], entrySize)
	le.PutUint32(b[88:], h.arrayCRC)
	le.PutUint32(b[16:], crc32.ChecksumIEEE(b[:headerSize]))

	return b
}

// array encodes the partition array. The table is valid.
func (t Table) array() []byte {
	b := make([]byte, arraySize)
	le := binary.LittleEndian
	sector := int64(t.SectorSize)
	for _, p := range t.Partitions {
		e := b[(p.Index-1)*entrySize:][:entrySize]
		PutGUID(e, p.Type)
		PutGUID(e[16:], p.UUID)
		le.PutUint64(e[32:], uint64(p.Start/sector))
		le.PutUint64(e[40:], uint64(p.End()/sector)-1)
		le.PutUint64(e[48:], p.Attributes)

		for i, u := range utf16.Encode([]rune(p.Label)) {
			le.PutUint16(e[56+2*i:], u)
		}
	}

	return b
}

// protectiveType is the type of the partition in a protective MBR.
const protectiveType = 0xEE

// protectiveMBR makes sector 0 (UEFI 5.2.3): one partition of type 0xEE over
// the disk. Its size is the greatest value, as the specification asks for disks
// it cannot describe, so that it stays right when the disk grows and is never
// written again.
func protectiveMBR(sectorSize int) []byte {
	b := make([]byte, sectorSize)
	copy(b[446:], []byte{
		0x00, 0x00, 0x02, 0x00, // not bootable; first sector as cylinder, head, sector
		protectiveType, 0xFF, 0xFF, 0xFF, // GPT protective; last sector: beyond what CHS can say
		0x01, 0x00, 0x00, 0x00, // first sector 1
		0xFF, 0xFF, 0xFF, 0xFF, // number of sectors
	})

	b[510] = 0x55
	b[511] = 0xAA
	return b
}

// PutGUID writes a UUID as UEFI does: the first three fields little-endian.
func PutGUID(b []byte, u uuid.UUID) {
	copy(b[:16], []byte{u[3], u[2], u[1], u[0], u[5], u[4], u[7], u[6]})
	copy(b[8:16], u[8:])
}

// GUID reads a UUID that UEFI has written, 16 bytes: the first three fields are
// little-endian.
func GUID(b []byte) (u uuid.UUID) {
	copy(u[:], []byte{b[3], b[2], b[1], b[0], b[5], b[4], b[7], b[6]})
	copy(u[8:], b[8:16])
	return u
}
