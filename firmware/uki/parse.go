package uki

import (
	"debug/pe"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Parse reads the sections of a UKI, those of the stub's code left out. A file without .linux is no UKI.
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
			return nil, fmt.Errorf("parse UKI: section %s: there twice", s.Name)
		}
		data, err := io.ReadAll(io.LimitReader(s.Open(), int64(min(s.VirtualSize, s.Size))))
		if err != nil {
			return nil, fmt.Errorf("parse UKI: section %s: %w", s.Name, err)
		}
		if len(data) != int(s.VirtualSize) {
			return nil, fmt.Errorf("parse UKI: section %s: %d bytes of %d in the file", s.Name, len(data), s.VirtualSize)
		}
		found = append(found, Section{Name: s.Name, Data: data})
	}
	if _, ok := found.Section(".linux"); !ok {
		return nil, errors.New("parse UKI: no .linux section")
	}
	return found, nil
}
