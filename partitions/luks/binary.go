package luks

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/google/uuid"

	"github.com/loam-os/loam/partitions/device"
)

// binarySize is the size of the binary part of a copy of the header; the JSON
// area follows it.
const binarySize = 4096

const (
	firstMagic  = "LUKS\xba\xbe"
	secondMagic = "SKUL\xba\xbe"
)

// binaryHeader is the start of a copy (section 2.1). Its numbers are big
// endian.
type binaryHeader struct {
	Magic     [6]byte
	Version   uint16
	Size      uint64
	Sequence  uint64
	Label     [48]byte
	Algorithm [32]byte
	Salt      [64]byte
	UUID      [40]byte
	Subsystem [48]byte
	Offset    uint64
	_         [184]byte
	Checksum  [64]byte
}

// checksumOffset is where the checksum of a copy is.
const checksumOffset = 448

// copySizes are the sizes that one copy may have, which are also the places of
// the second copy (table 1).
var copySizes = []int64{
	16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20,
}

// Probe reports whether a device begins with the header of a LUKS container of
// any version, valid or not.
func Probe(r io.ReaderAt) (bool, error) {
	magic := make([]byte, len(firstMagic))
	if _, err := r.ReadAt(magic, 0); err != nil {
		return false, err
	}
	return string(magic) == firstMagic, nil
}

// Read reads the header of the container on a device. The error is ErrNotLUKS
// if neither copy is there.
func Read(r io.ReaderAt) (*Header, error) {
	first, err := readCopy(r, 0, firstMagic)
	places := copySizes
	if first != nil {
		places = []int64{first.size}
	}

	var second *Header
	errs := []error{err}
	for _, place := range places {
		second, err = readCopy(r, place, secondMagic)
		if second != nil {
			break
		}
		if !errors.Is(err, ErrNotLUKS) {
			errs = append(errs, err)
		}
	}

	switch {
	case first == nil && second == nil:
		return nil, fmt.Errorf("LUKS2 header: %w", errors.Join(errs...))
	case first == nil, second != nil && second.sequence > first.sequence:
		return second, nil
	}
	return first, nil
}

// readCopy reads the copy at offset. A missing copy is ErrNotLUKS.
func readCopy(r io.ReaderAt, offset int64, magic string) (*Header, error) {
	start := make([]byte, binarySize)
	if n, err := r.ReadAt(start, offset); n < len(start) {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, ErrNotLUKS
		}
		return nil, err
	}

	var b binaryHeader
	if err := binary.Read(bytes.NewReader(start), binary.BigEndian, &b); err != nil {
		return nil, err
	}
	if string(b.Magic[:]) != magic {
		return nil, ErrNotLUKS
	}
	if err := b.validate(offset); err != nil {
		return nil, fmt.Errorf("copy at byte %d: %w", offset, err)
	}

	all := make([]byte, b.Size)
	if _, err := r.ReadAt(all, offset); err != nil {
		return nil, fmt.Errorf("copy at byte %d: %w", offset, err)
	}

	h, err := b.decode(all)
	if err != nil {
		return nil, fmt.Errorf("copy at byte %d: %w", offset, err)
	}
	return h, nil
}

func (b *binaryHeader) validate(offset int64) error {
	if b.Version != 2 {
		return fmt.Errorf("version %d of LUKS: want 2", b.Version)
	}
	if algorithm := text(b.Algorithm[:]); algorithm != "sha256" {
		return fmt.Errorf("checksum %q: want sha256", algorithm)
	}
	if b.Offset != uint64(offset) {
		return fmt.Errorf("says that it is at byte %d", b.Offset)
	}

	for _, size := range copySizes {
		if b.Size == uint64(size) && (offset == 0 || offset == size) {
			return nil
		}
	}
	return fmt.Errorf("invalid size %d", b.Size)
}

// decode reads a copy whose binary part is b.
func (b *binaryHeader) decode(all []byte) (*Header, error) {
	if checksum(all) != [32]byte(b.Checksum[:32]) {
		return nil, errors.New("the checksum does not match")
	}

	id, err := uuid.Parse(text(b.UUID[:]))
	if err != nil {
		return nil, fmt.Errorf("UUID: %w", err)
	}

	h := &Header{
		UUID:      id,
		Label:     text(b.Label[:]),
		Subsystem: text(b.Subsystem[:]),
		sequence:  b.Sequence,
		size:      int64(b.Size),
	}

	document, _, _ := bytes.Cut(all[binarySize:], []byte{0})
	if err := json.Unmarshal(document, &h.meta); err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	if h.meta.Keyslots == nil || h.meta.Tokens == nil {
		return nil, errors.New("metadata: no keyslots or tokens")
	}
	if err := h.meta.validate(h.size); err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}

	return h, nil
}

// Write writes both copies of the header, with the next sequence number. The
// first sector of the first copy is the last one written, so a device that has
// no header yet does not look like a container before it is one.
func (h *Header) Write(d device.Device) error {
	h.sequence++
	second, err := h.encode(h.size, secondMagic)
	if err != nil {
		return fmt.Errorf("LUKS2 header: %w", err)
	}
	first, err := h.encode(0, firstMagic)
	if err != nil {
		return fmt.Errorf("LUKS2 header: %w", err)
	}

	for _, part := range []struct {
		data   []byte
		offset int64
	}{
		{second, h.size},
		{first[binarySize:], binarySize},
		{first[:binarySize], 0},
	} {
		if _, err := d.WriteAt(part.data, part.offset); err != nil {
			return fmt.Errorf("write LUKS2 header: %w", err)
		}
		if err := d.Sync(); err != nil {
			return fmt.Errorf("write LUKS2 header: %w", err)
		}
	}

	return nil
}

// encode makes a copy for offset.
func (h *Header) encode(offset int64, magic string) ([]byte, error) {
	if err := h.meta.validate(h.size); err != nil {
		return nil, err
	}
	document, err := json.Marshal(h.meta)
	if err != nil {
		return nil, err
	}
	if int64(len(document)) >= h.meta.Config.JSONSize {
		return nil, fmt.Errorf("metadata of %d bytes, there is room for %d", len(document),
			h.meta.Config.JSONSize-1)
	}

	b := binaryHeader{
		Version:  2,
		Size:     uint64(h.size),
		Sequence: h.sequence,
		Offset:   uint64(offset),
	}
	copy(b.Magic[:], magic)
	copy(b.Label[:len(b.Label)-1], h.Label)
	copy(b.Subsystem[:len(b.Subsystem)-1], h.Subsystem)
	copy(b.Algorithm[:], "sha256")
	copy(b.UUID[:], h.UUID.String())
	_, _ = rand.Read(b.Salt[:]) // It never fails, and only makes the copies differ.

	all := make([]byte, h.size)
	if _, err := binary.Encode(all, binary.BigEndian, &b); err != nil {
		return nil, err
	}
	copy(all[binarySize:], document)

	sum := checksum(all)
	copy(all[checksumOffset:], sum[:])
	return all, nil
}

// checksum returns the checksum of a copy, with the field itself as zeros.
func checksum(all []byte) [32]byte {
	h := sha256.New()
	h.Write(all[:checksumOffset])
	h.Write(make([]byte, 64))
	h.Write(all[checksumOffset+64:])
	return [32]byte(h.Sum(nil))
}

// text returns a string that ends with a zero byte.
func text(field []byte) string {
	before, _, _ := bytes.Cut(field, []byte{0})
	return string(before)
}
