package uki

import (
	"fmt"
	"slices"
)

// Section is one PE section of a UKI.
type Section struct {
	Name string // ".linux"
	Data []byte
}

// Sections of a UKI in the order of the file.
type Sections []Section

// Section returns the data of the section with that name.
func (ss Sections) Section(name string) ([]byte, bool) {
	i := slices.IndexFunc(ss, func(s Section) bool { return s.Name == name })
	if i < 0 {
		return nil, false
	}
	return ss[i].Data, true
}

// Names of the sections of a UKI that Build adds, in the order that ukify
// writes them. The stub leaves SBOM and LoaderSignature alone.
func Names() []string {
	return []string{
		".osrel", ".cmdline", ".dtb", ".hwids", ".uname", ".splash", ".pcrpkey", SBOM, ".linux",
		".initrd", ".ucode", ".pcrsig", LoaderSignature,
	}
}

// SBOM is the section with an SPDX document about the content of the image.
const SBOM = ".sbom"

// LoaderSignature is the section that has the signature (Authenticode) of the
// loader which the system brings. That is in the root file system, which is the
// same whoever signs.
const LoaderSignature = ".ldrsig"

// stubSections of a UKI come with the stub.
func stubSections() []string { return []string{".sbat", ".sdmagic"} }

// ordered checks names and brings the sections into the order of Names.
func ordered(sections []Section) ([]Section, error) {
	names := Names()
	for i, s := range sections {
		if !slices.Contains(names, s.Name) {
			return nil, fmt.Errorf("section %q: not one of %q", s.Name, names)
		}
		if slices.ContainsFunc(sections[:i], func(o Section) bool { return o.Name == s.Name }) {
			return nil, fmt.Errorf("section %s: given twice", s.Name)
		}
		if len(s.Data) == 0 {
			return nil, fmt.Errorf("section %s: empty", s.Name)
		}
	}

	sorted := slices.Clone(sections)
	slices.SortFunc(sorted, func(a, b Section) int {
		return slices.Index(names, a.Name) - slices.Index(names, b.Name)
	})

	return sorted, nil
}
