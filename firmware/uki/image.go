package uki

import (
	"bytes"
	"debug/pe"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

const (
	fileHeaderSize    = 20
	sectionHeaderSize = 40
	// checksumOffset of the field in the optional header.
	checksumOffset = 64
	// maxImage bounds a UKI: PE positions are 32 bits, and firmware loads the
	// image below 4 GiB.
	maxImage = 1 << 31
)

// image is a PE32+ file taken apart: headers as values, the rest of the file as
// bytes.
type image struct {
	file     pe.FileHeader
	optional pe.OptionalHeader64
	sections []pe.SectionHeader32
	peOffset int // of the PE signature
	data     []byte
}

// parseImage takes a stub apart. Its headers must describe an EFI application,
// unsigned, without symbol table.
func parseImage(data []byte) (*image, error) {
	f, err := pe.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}

	optional, ok := f.OptionalHeader.(*pe.OptionalHeader64)
	switch {
	case !ok || optional.Subsystem != pe.IMAGE_SUBSYSTEM_EFI_APPLICATION:
		return nil, errors.New("not a 64-bit EFI application")
	case optional.DataDirectory[pe.IMAGE_DIRECTORY_ENTRY_SECURITY].Size != 0:
		return nil, errors.New("signed")
	case f.NumberOfSymbols != 0 || f.PointerToSymbolTable != 0:
		return nil, errors.New("has a symbol table")
	case len(f.Sections) == 0:
		return nil, errors.New("has no sections")
	case !alignment(optional.FileAlignment) || !alignment(optional.SectionAlignment):
		return nil, fmt.Errorf("alignment of %d in the file, %d in memory",
			optional.FileAlignment, optional.SectionAlignment)
	}

	im := &image{
		file:     f.FileHeader,
		optional: *optional,
		data:     slices.Clone(data),
		peOffset: int(binary.LittleEndian.Uint32(data[0x3c:])),
	}

	r := bytes.NewReader(data[im.tableOffset():])
	im.sections = make([]pe.SectionHeader32, len(f.Sections))
	if err := binary.Read(r, binary.LittleEndian, im.sections); err != nil {
		return nil, fmt.Errorf("section table: %w", err)
	}

	return im, errors.Join(im.check(), im.checkContents())
}

// check makes sure that the section table lies in the headers, and the sections
// ascend in memory.
func (im *image) check() error {
	if end := int64(im.tableOffset() +
		len(im.sections)*sectionHeaderSize); end > int64(im.optional.SizeOfHeaders) ||
		int64(im.optional.SizeOfHeaders) > int64(len(im.data)) {
		return fmt.Errorf("headers of %d bytes, section table ends at %d",
			im.optional.SizeOfHeaders, end)
	}

	end := int64(im.optional.SizeOfHeaders)
	for _, s := range im.sections {
		if int64(s.VirtualAddress) < end ||
			int64(s.VirtualAddress)+int64(s.VirtualSize) > maxImage {
			return fmt.Errorf("section %s: at %#x, before the end of what precedes it",
				name(s), s.VirtualAddress)
		}
		end = int64(s.VirtualAddress) + int64(s.VirtualSize)
	}

	return nil
}

// checkContents makes sure that the sections which Parse reads are in the file,
// each once.
func (im *image) checkContents() error {
	known := append(Names(), stubSections()...)
	for i, s := range im.sections {
		switch {
		case !slices.Contains(known, name(s)):
		case s.PointerToRawData == 0 || s.VirtualSize > s.SizeOfRawData ||
			int64(s.PointerToRawData)+int64(s.VirtualSize) > int64(len(im.data)):
			return fmt.Errorf("section %s: not in the file", name(s))
		case slices.ContainsFunc(im.sections[:i], func(o pe.SectionHeader32) bool {
			return name(o) == name(s)
		}):
			return fmt.Errorf("section %s: appears twice", name(s))
		}
	}

	return nil
}

// tableOffset is where the section table is in the file.
func (im *image) tableOffset() int {
	return im.peOffset + 4 + fileHeaderSize + int(im.file.SizeOfOptionalHeader)
}

// bytes puts the file together again, with its checksum.
func (im *image) bytes() ([]byte, error) {
	var headers bytes.Buffer
	for _, h := range []any{im.file, im.optional} {
		if err := binary.Write(&headers, binary.LittleEndian, h); err != nil {
			return nil, err
		}
	}

	copy(im.data[im.peOffset+4:], headers.Bytes())
	var table bytes.Buffer
	if err := binary.Write(&table, binary.LittleEndian, im.sections); err != nil {
		return nil, err
	}

	copy(im.data[im.tableOffset():], table.Bytes())
	field := im.data[im.peOffset+4+fileHeaderSize+checksumOffset:]
	binary.LittleEndian.PutUint32(field, 0)
	binary.LittleEndian.PutUint32(field, checksum(im.data))

	return im.data, nil
}

// checksum is the PE checksum: the ones' complement sum of the 16-bit words,
// plus the file's size. The size of data is a multiple of four: words are added
// in pairs, and the carries are folded in at the end, which has the same result.
func checksum(data []byte) uint32 {
	var sum uint64
	for i := 0; i+4 <= len(data); i += 4 {
		sum += uint64(binary.LittleEndian.Uint32(data[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint32(sum) + uint32(len(data))
}

// name returns the section's name without its padding.
func name(s pe.SectionHeader32) string {
	text, _, _ := bytes.Cut(s.Name[:], []byte{0})
	return string(text)
}

// alignment reports whether n is a power of two that a PE may align to.
func alignment(n uint32) bool { return n >= 512 && n <= 1<<16 && n&(n-1) == 0 }

// alignUp rounds n up to a multiple of to, a power of two.
func alignUp(n int64, to uint32) int64 { return (n + int64(to) - 1) &^ (int64(to) - 1) }
