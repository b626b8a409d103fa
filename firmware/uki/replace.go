package uki

import (
	"debug/pe"
	"fmt"
	"slices"
)

// Replace returns an unsigned UKI with another section in the place of the one
// with the same name, or as a new one. The sections after it move.
func Replace(image []byte, s Section) ([]byte, error) {
	im, err := parseImage(image)
	if err != nil {
		return nil, fmt.Errorf("replace section %s of a UKI: %w", s.Name, err)
	}

	if names := Names(); len(s.Data) == 0 || !slices.Contains(names, s.Name) {
		return nil, fmt.Errorf("replace section %s of a UKI: want one of %q, with content",
			s.Name, names)
	}

	sections, err := im.cut(s.Name)
	if err != nil {
		return nil, fmt.Errorf("replace section %s of a UKI: %w", s.Name, err)
	}
	sections = append([]Section{s}, sections...)

	if err := im.makeRoom(len(sections)); err != nil {
		return nil, fmt.Errorf("replace section %s of a UKI: %w", s.Name, err)
	}
	for _, one := range sections {
		if err := im.add(one); err != nil {
			return nil, fmt.Errorf("replace section %s of a UKI: %w", s.Name, err)
		}
	}

	return im.bytes()
}

// Remove returns an unsigned UKI without a section. The sections after it move.
func Remove(image []byte, section string) ([]byte, error) {
	im, err := parseImage(image)
	if err != nil {
		return nil, fmt.Errorf("remove section %s of a UKI: %w", section, err)
	}
	if !slices.ContainsFunc(im.sections, func(h pe.SectionHeader32) bool {
		return name(h) == section
	}) {
		return image, nil
	}

	after, err := im.cut(section)
	if err != nil {
		return nil, fmt.Errorf("remove section %s of a UKI: %w", section, err)
	}
	for _, one := range after {
		if err := im.add(one); err != nil {
			return nil, fmt.Errorf("remove section %s of a UKI: %w", section, err)
		}
	}

	last := im.sections[len(im.sections)-1]
	im.optional.SizeOfImage = uint32(alignUp(int64(last.VirtualAddress)+int64(last.VirtualSize),
		im.optional.SectionAlignment))
	clear(im.data[im.tableOffset()+len(im.sections)*sectionHeaderSize:][:sectionHeaderSize])
	return im.bytes()
}

// cut removes the section of that name, and all that come after its place in
// the order of Names. It returns the latter.
func (im *image) cut(section string) ([]Section, error) {
	names := Names()
	from := slices.IndexFunc(im.sections, func(h pe.SectionHeader32) bool {
		return slices.Index(names, name(h)) >= slices.Index(names, section)
	})
	if from < 0 {
		return nil, nil
	}

	var after []Section
	for _, h := range im.sections[from:] {
		if !slices.Contains(names, name(h)) {
			return nil, fmt.Errorf("section %s of the stub comes after it", name(h))
		}
		if name(h) != section {
			data := im.data[h.PointerToRawData:][:h.VirtualSize]
			after = append(after, Section{Name: name(h), Data: slices.Clone(data)})
		}
		im.optional.SizeOfInitializedData -= h.VirtualSize
		im.file.NumberOfSections--
	}

	im.data = im.data[:im.sections[from].PointerToRawData]
	im.sections = im.sections[:from]
	return after, nil
}
