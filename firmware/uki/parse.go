package uki

import (
	"debug/pe"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Parse reads the sections of a UKI except the stub's code. A file without
// .linux is no UKI.
func Parse(r io.ReaderAt) (Sections, error) {
	f, err := pe.NewFile(r)
	if err != nil {
		return nil, fmt.Errorf("parse UKI: %w", err)
	}

	known := append(Names(), stubSections()...)
	var found Sections
	for _, s := range f.Sections {
		if !slices.Contains(known, s.Name) {
			continue
		}
		if _, twice := found.Section(s.Name); twice {
			return nil, fmt.Errorf("parse UKI: section %s: appears twice", s.Name)
		}

		data, err := io.ReadAll(io.LimitReader(s.Open(), int64(min(s.VirtualSize, s.Size))))
		if err != nil {
			return nil, fmt.Errorf("parse UKI: section %s: %w", s.Name, err)
		}

		if len(data) != int(s.VirtualSize) {
			return nil, fmt.Errorf("parse UKI: section %s: %d bytes of %d in the file",
				s.Name, len(data), s.VirtualSize)
		}

		found = append(found, Section{Name: s.Name, Data: data})
	}

	if _, ok := found.Section(".linux"); !ok {
		return nil, errors.New("parse UKI: no .linux section")
	}

	return found, nil
}

// ReadSection reads one section of a UKI, without the rest of it.
func ReadSection(r io.ReaderAt, name string) ([]byte, error) {
	f, err := pe.NewFile(r)
	if err != nil {
		return nil, fmt.Errorf("read section %s of a UKI: %w", name, err)
	}

	s := f.Section(name)
	if s == nil || s.VirtualSize > s.Size || s.VirtualSize > maxSection {
		return nil, fmt.Errorf("read section %s of a UKI: absent, or of invalid size", name)
	}

	data := make([]byte, s.VirtualSize)
	if _, err := s.ReadAt(data, 0); err != nil {
		return nil, fmt.Errorf("read section %s of a UKI: %w", name, err)
	}

	return data, nil
}

// maxSection is the largest section that is read into memory.
const maxSection = 1 << 20
