package uki

import (
	"fmt"
	"slices"
)

// Replace returns an unsigned UKI with another last section. It replaces the
// section with the same name, if present.
func Replace(image []byte, s Section) ([]byte, error) {
	im, err := parseImage(image)
	if err != nil {
		return nil, fmt.Errorf("replace section %s of a UKI: %w", s.Name, err)
	}

	if names := Names(); len(s.Data) == 0 || s.Name != names[len(names)-1] {
		return nil, fmt.Errorf("replace section %s of a UKI: want the last of %q, with content",
			s.Name, names)
	}

	if last := len(im.sections) - 1; name(im.sections[last]) == s.Name {
		h := im.sections[last]
		im.data = im.data[:h.PointerToRawData]
		im.sections = slices.Delete(im.sections, last, last+1)
		im.file.NumberOfSections--
		im.optional.SizeOfInitializedData -= h.VirtualSize
	}

	if err := im.makeRoom(1); err != nil {
		return nil, fmt.Errorf("replace section %s of a UKI: %w", s.Name, err)
	}
	if err := im.add(s); err != nil {
		return nil, fmt.Errorf("replace section %s of a UKI: %w", s.Name, err)
	}

	return im.bytes()
}
