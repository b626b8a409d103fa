package gpt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"unicode/utf16"

	"github.com/google/uuid"
)

// decodeHeader checks signature, sizes and checksum of a header's sector. It
// does not decode the usable range: partitions are checked against the range
// that follows from the disk size.
func decodeHeader(b []byte) (header, error) {
	le := binary.LittleEndian
	if string(b[:8]) != signature {
		return header{}, errors.New("no GPT signature")
	}

	if rev, size := le.Uint32(b[8:]), le.Uint32(b[12:]); rev != revision || size != headerSize {
		return header{}, fmt.Errorf("revision %#x, header size %d: want %#x, %d",
			rev, size, revision, headerSize)
	}

	if n, size := le.Uint32(b[80:]), le.Uint32(b[84:]); n != MaxPartitions || size != entrySize {
		return header{}, fmt.Errorf("%d entries of %d bytes: want %d of %d",
			n, size, MaxPartitions, entrySize)
	}

	covered := slices.Clone(b[:headerSize])
	clear(covered[16:20])
	if crc32.ChecksumIEEE(covered) != le.Uint32(b[16:]) {
		return header{}, errors.New("header checksum is wrong")
	}

	return header{
		self:     le.Uint64(b[24:]),
		other:    le.Uint64(b[32:]),
		diskGUID: GUID(b[56:]),
		array:    le.Uint64(b[72:]),
		arrayCRC: le.Uint32(b[88:]),
	}, nil
}

// decodeArray decodes the used entries, in the order of their index.
func (d disk) decodeArray(b []byte) (parts []Partition, err error) {
	le := binary.LittleEndian
	for i := range MaxPartitions {
		e := b[i*entrySize:][:entrySize]
		p := Partition{
			Index:      i + 1,
			Type:       GUID(e),
			UUID:       GUID(e[16:]),
			Attributes: le.Uint64(e[48:]),
		}
		if p.Type == uuid.Nil {
			continue
		}

		first := le.Uint64(e[32:])
		last := le.Uint64(e[40:])
		if first > last || last >= d.sectors {
			return nil, fmt.Errorf("partition %d: sectors %d to %d: outside the disk's %d",
				p.Index, first, last, d.sectors)
		}

		p.Start = int64(first) * int64(d.sectorSize)
		p.Size = int64(last-first+1) * int64(d.sectorSize)

		p.Label, err = decodeLabel(e[56:])
		if err != nil {
			return nil, fmt.Errorf("partition %d: %w", p.Index, err)
		}

		parts = append(parts, p)
	}

	return parts, nil
}

// decodeLabel decodes a label up to the first NUL. Text that is no UTF-16 is an
// error, so that a table read is written back equal.
func decodeLabel(b []byte) (string, error) {
	units := make([]uint16, 0, LabelUnits)
	for i := 0; i < 2*LabelUnits; i += 2 {
		u := binary.LittleEndian.Uint16(b[i:])
		if u == 0 {
			break
		}
		units = append(units, u)
	}

	runes := utf16.Decode(units)
	if !slices.Equal(utf16.Encode(runes), units) {
		return "", fmt.Errorf("label % x: not UTF-16", bytes.TrimRight(b[:2*LabelUnits], "\x00"))
	}

	return string(runes), nil
}
