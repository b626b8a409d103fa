package authenticode

import (
	"cmp"
	"crypto/sha256"
	"debug/pe"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

const (
	// Offsets in the optional header of PE32+: the checksum, and the directory
	// entry of the table of signatures.
	checksumOffset = 64
	securityOffset = 112 + 8*pe.IMAGE_DIRECTORY_ENTRY_SECURITY
	// maxTable bounds the table of signatures.
	maxTable = 1 << 20
	// header is the size of a WIN_CERTIFICATE's header, pkcsSignedData the type
	// of a signature.
	header         = 8
	pkcsSignedData = 2
)

// layout has the offsets of the fields that the digest leaves out, and of the
// table of signatures, which ends the file.
type layout struct {
	checksum, security int64
	table0, end        int64
}

// parse takes an image apart. Bytes that belong to no section are an error:
// programs differ in whether the digest has them.
func parse(r io.ReaderAt, size int64) (layout, error) {
	f, err := pe.NewFile(r)
	if err != nil {
		return layout{}, err
	}

	h, ok := f.OptionalHeader.(*pe.OptionalHeader64)
	if !ok || h.NumberOfRvaAndSizes <= pe.IMAGE_DIRECTORY_ENTRY_SECURITY {
		return layout{}, errors.New("no 64-bit image")
	}

	var dos [64]byte
	if _, err := r.ReadAt(dos[:], 0); err != nil {
		return layout{}, err
	}
	if dos[0] != 'M' || dos[1] != 'Z' { // debug/pe also reads objects.
		return layout{}, errors.New("no EFI image")
	}

	optional := int64(binary.LittleEndian.Uint32(dos[0x3c:])) + 4 + 20
	l := layout{
		checksum: optional + checksumOffset,
		security: optional + securityOffset,
		table0:   size,
		end:      size,
	}

	if d := h.DataDirectory[pe.IMAGE_DIRECTORY_ENTRY_SECURITY]; d.Size > 0 {
		l.table0 = int64(d.VirtualAddress)
		if d.Size > maxTable || l.table0+int64(d.Size) != size {
			return layout{}, fmt.Errorf(
				"table of signatures at %d, %d bytes: not the end of %d bytes",
				d.VirtualAddress, d.Size, size,
			)
		}
	}

	return l, l.check(f.Sections, int64(h.SizeOfHeaders))
}

// check makes sure that headers and sections follow each other, up to the
// table.
func (l layout) check(sections []*pe.Section, at int64) error {
	if at < l.security+8 {
		return fmt.Errorf("headers of %d bytes", at)
	}

	sorted := slices.SortedFunc(slices.Values(sections), func(a, b *pe.Section) int {
		return cmp.Compare(a.Offset, b.Offset)
	})

	for _, s := range sorted {
		if s.Size == 0 {
			continue
		}
		if int64(s.Offset) != at {
			return fmt.Errorf("section %s at %d: what precedes it ends at %d", s.Name, s.Offset, at)
		}
		at += int64(s.Size)
	}
	if at > l.table0 {
		return fmt.Errorf("sections of %d bytes in a file of %d", at, l.table0)
	}

	return nil
}

// digest returns the Authenticode digest of the image.
func (l layout) digest(r io.ReaderAt) ([]byte, error) {
	sum := sha256.New()
	for _, part := range [][2]int64{
		{0, l.checksum},
		{l.checksum + 4, l.security},
		{l.security + 8, l.table0},
	} {
		if _, err := io.Copy(sum, io.NewSectionReader(r, part[0], part[1]-part[0])); err != nil {
			return nil, err
		}
	}
	return sum.Sum(nil), nil
}

// table is the PKCS #7 data of each signature (WIN_CERTIFICATE, UEFI 32.2.4).
// Firmware passes over other kinds of entries, too.
func (l layout) table(r io.ReaderAt) (all [][]byte, err error) {
	b := make([]byte, l.end-l.table0)
	if _, err := r.ReadAt(b, l.table0); err != nil && len(b) > 0 {
		return nil, err
	}

	for len(b) > 0 {
		if len(b) < header {
			return nil, fmt.Errorf("%d bytes after its last entry", len(b))
		}

		n := int64(binary.LittleEndian.Uint32(b))
		if n < header || n > int64(len(b)) {
			return nil, fmt.Errorf("an entry of %d bytes in %d", n, len(b))
		}

		if binary.LittleEndian.Uint16(b[6:]) == pkcsSignedData {
			all = append(all, b[header:n])
		}

		b = b[min(int64(len(b)), (n+7)&^7):]
	}

	return all, nil
}
