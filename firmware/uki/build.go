package uki

import (
	"bytes"
	"debug/pe"
	"fmt"
)

// Build adds sections to systemd-stub, in the order of Names whatever order
// they come in. Equal inputs give equal bytes: the time stamp is zero. The
// stub's .sbat stays as it is; see [AddSBAT]. Unlike ukify, Build does not add
// the kernel's.
func Build(stub []byte, sections []Section) ([]byte, error) {
	sorted, err := ordered(sections)
	if err != nil {
		return nil, fmt.Errorf("build UKI: %w", err)
	}

	im, err := parseImage(stub)
	if err != nil {
		return nil, fmt.Errorf("build UKI: stub: %w", err)
	}
	if err := im.makeRoom(len(sorted)); err != nil {
		return nil, fmt.Errorf("build UKI: stub: %w", err)
	}

	for _, s := range sorted {
		if err := im.add(s); err != nil {
			return nil, fmt.Errorf("build UKI: section %s: %w", s.Name, err)
		}
	}

	im.file.TimeDateStamp = 0
	return im.bytes()
}

// makeRoom grows the headers until n more entries fit into the section table,
// and moves all section data back by as much. The first section's address
// bounds the headers, since they are mapped too.
func (im *image) makeRoom(n int) error {
	need := alignUp(int64(im.tableOffset()+(len(im.sections)+n)*sectionHeaderSize),
		im.optional.FileAlignment)
	grow := need - int64(im.optional.SizeOfHeaders)
	if grow <= 0 {
		return nil
	}

	if need > int64(im.sections[0].VirtualAddress) {
		return fmt.Errorf("no room for %d more section headers before %#x",
			n, im.sections[0].VirtualAddress)
	}

	if im.optional.DataDirectory[pe.IMAGE_DIRECTORY_ENTRY_DEBUG].Size != 0 {
		return fmt.Errorf(
			"no room for %d more section headers, and debug data that cannot be moved", n,
		)
	}

	old := im.optional.SizeOfHeaders
	im.data = bytes.Join([][]byte{im.data[:old], make([]byte, grow), im.data[old:]}, nil)
	im.optional.SizeOfHeaders = uint32(need)

	for i := range im.sections {
		if im.sections[i].PointerToRawData != 0 {
			im.sections[i].PointerToRawData += uint32(grow)
		}
	}

	return nil
}

// add appends a section, in the file and in memory.
func (im *image) add(s Section) error {
	for _, have := range im.sections {
		if name(have) == s.Name {
			return fmt.Errorf("the stub has one already")
		}
	}

	last := im.sections[len(im.sections)-1]
	fileAlign := im.optional.FileAlignment
	h := pe.SectionHeader32{
		VirtualSize: uint32(len(s.Data)),
		VirtualAddress: uint32(alignUp(int64(last.VirtualAddress)+int64(last.VirtualSize),
			im.optional.SectionAlignment)),
		SizeOfRawData:   uint32(alignUp(int64(len(s.Data)), fileAlign)),
		Characteristics: pe.IMAGE_SCN_MEM_READ | pe.IMAGE_SCN_CNT_INITIALIZED_DATA,
	}

	raw := alignUp(int64(len(im.data)), fileAlign)
	if end := max(raw, int64(h.VirtualAddress)) + int64(len(s.Data)); end > maxImage {
		return fmt.Errorf("the image would end at byte %d, more than %d", end, maxImage)
	}

	copy(h.Name[:], s.Name)
	h.PointerToRawData = uint32(raw)

	if s.Name == ".linux" {
		h.Characteristics = pe.IMAGE_SCN_MEM_READ | pe.IMAGE_SCN_CNT_CODE
		if err := im.match(s.Data); err != nil {
			return fmt.Errorf("kernel: %w", err)
		}
	}

	im.data = append(im.data, make([]byte, raw-int64(len(im.data)))...)
	im.data = append(im.data, s.Data...)
	im.data = append(im.data, make([]byte, int64(h.SizeOfRawData)-int64(len(s.Data)))...)
	im.sections = append(im.sections, h)
	im.file.NumberOfSections++
	im.optional.SizeOfInitializedData += h.VirtualSize
	im.optional.SizeOfImage = uint32(alignUp(int64(h.VirtualAddress)+int64(h.VirtualSize),
		im.optional.SectionAlignment))

	return nil
}

// match refuses a kernel for another machine than the stub's. It drops the
// stub's claim to run with non-executable data pages if the kernel does not
// make it: the stub's claim counts for both, and firmware that enforces it
// would not start the kernel.
func (im *image) match(kernel []byte) error {
	f, err := pe.NewFile(bytes.NewReader(kernel))
	if err != nil {
		return fmt.Errorf("no EFI application (CONFIG_EFI_STUB): %w", err)
	}
	if f.Machine != im.file.Machine {
		return fmt.Errorf("for machine %#x, the stub for %#x", f.Machine, im.file.Machine)
	}

	h, ok := f.OptionalHeader.(*pe.OptionalHeader64)
	if !ok || h.DllCharacteristics&pe.IMAGE_DLLCHARACTERISTICS_NX_COMPAT == 0 {
		im.optional.DllCharacteristics &^= pe.IMAGE_DLLCHARACTERISTICS_NX_COMPAT
	}

	return nil
}
