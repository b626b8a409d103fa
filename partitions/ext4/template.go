package ext4

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/google/uuid"
)

// FormatMark at the start of a partition says that the builder or an installer
// made the partition, and that the node should format it.
const FormatMark = "LOAM STATE PARTITION, TO BE FORMATTED\n"

// Template is a file system of Size bytes as its blocks that are not zero, in
// ascending order. The first extent holds the superblock.
type Template struct {
	Size    int64
	Extents []Extent
}

// Extent is a run of bytes at Offset.
type Extent struct {
	Offset int64
	Data   []byte
}

const (
	templateMagic = "LOAMEXT4"
	templateBlock = 4096
	maxTemplate   = 1 << 30
)

// FromImage reads the template out of a file system image.
func FromImage(r io.ReaderAt, size int64) (Template, error) {
	t := Template{Size: size}
	zero := make([]byte, templateBlock)
	for off := int64(0); off < size; off += templateBlock {
		b := make([]byte, templateBlock)
		if _, err := r.ReadAt(b, off); err != nil {
			return Template{}, fmt.Errorf("read file system image at %d: %w", off, err)
		}
		if bytes.Equal(b, zero) {
			continue
		}

		if n := len(t.Extents); n > 0 && t.Extents[n-1].end() == off {
			t.Extents[n-1].Data = append(t.Extents[n-1].Data, b...)
			continue
		}

		t.Extents = append(t.Extents, Extent{off, b})
	}

	return t, t.check()
}

func (e Extent) end() int64 { return e.Offset + int64(len(e.Data)) }

func (t Template) check() error {
	if t.Size <= 0 || t.Size > maxTemplate || len(t.Extents) == 0 || t.Extents[0].Offset != 0 ||
		len(t.Extents[0].Data) < 2*superblockSize {
		return errors.New("file system template: no superblock or size out of range")
	}

	end := int64(0)
	for _, e := range t.Extents {
		if e.Offset < end || e.Offset%templateBlock != 0 || len(e.Data)%templateBlock != 0 ||
			e.end() > t.Size {
			return fmt.Errorf("file system template: extent at %d: out of order or place", e.Offset)
		}
		end = e.end()
	}

	_, err := parseSuperblock(t.Extents[0].Data[SuperblockOffset:][:superblockSize])
	return err
}

// Encode writes t as magic, size, and for each extent offset, length, data;
// numbers are little-endian of 8 bytes.
func (t Template) Encode() []byte {
	b := binary.LittleEndian.AppendUint64([]byte(templateMagic), uint64(t.Size))
	for _, e := range t.Extents {
		b = binary.LittleEndian.AppendUint64(b, uint64(e.Offset))
		b = binary.LittleEndian.AppendUint64(b, uint64(len(e.Data)))
		b = append(b, e.Data...)
	}
	return b
}

// DecodeTemplate reads what Encode wrote.
func DecodeTemplate(b []byte) (Template, error) {
	if len(b) < 16 || string(b[:8]) != templateMagic {
		return Template{}, errors.New("file system template: wrong magic")
	}

	t := Template{Size: int64(binary.LittleEndian.Uint64(b[8:]))}
	for b = b[16:]; len(b) > 0; {
		if len(b) < 16 {
			return Template{}, errors.New("file system template: cut short")
		}

		off := binary.LittleEndian.Uint64(b)
		n := binary.LittleEndian.Uint64(b[8:])
		b = b[16:]
		if n > uint64(len(b)) || off > maxTemplate {
			return Template{}, errors.New("file system template: extent beyond the end")
		}

		t.Extents = append(t.Extents, Extent{int64(off), b[:n]})
		b = b[n:]
	}

	return t, t.check()
}

// WithIdentity is t with a UUID and a directory hash seed of its own, in the
// first superblock and in the copies at the start of block groups.
func (t Template) WithIdentity(id, hashSeed uuid.UUID) Template {
	const group = 32768 * templateBlock // blocks per group at 4 KiB
	out := Template{Size: t.Size}
	for _, e := range t.Extents {
		e.Data = slices.Clone(e.Data)
		at := int64(0) // a copy starts its group; only the first lies behind a boot sector
		if e.Offset == 0 {
			at = SuperblockOffset
		}
		if e.Offset%group == 0 && binary.LittleEndian.Uint16(e.Data[at+offMagic:]) == magic {
			setIdentity(e.Data[at:at+superblockSize], id, hashSeed)
		}

		out.Extents = append(out.Extents, e)
	}

	return out
}
