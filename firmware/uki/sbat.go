package uki

import (
	"bytes"
	"debug/pe"
	"fmt"
	"slices"
	"strings"
)

// sbat is the section with the generations of a program: a loader that enforces
// them (shim) starts nothing of a generation that was revoked (shim, SBAT.md).
const sbat = ".sbat"

// SBAT is a line of that section. Its fields have no commas.
type SBAT struct {
	// Component names what the generation is about. The generation rises when a
	// hole in it is closed.
	Component  string
	Generation int

	// Vendor, Package, Version and URL are for people.
	Vendor, Package, Version, URL string
}

// AddSBAT returns a stub with one more line in its section .sbat. It must fit
// into what the file has for that section.
func AddSBAT(stub []byte, line SBAT) ([]byte, error) {
	fields := []string{
		line.Component,
		fmt.Sprint(line.Generation),
		line.Vendor,
		line.Package,
		line.Version,
		line.URL,
	}
	if slices.ContainsFunc(fields, func(f string) bool { return strings.ContainsAny(f, ",\n") }) {
		return nil, fmt.Errorf("add to %s: %q: want no commas", sbat, fields)
	}

	im, err := parseImage(stub)
	if err != nil {
		return nil, fmt.Errorf("add to %s: %w", sbat, err)
	}
	at := slices.IndexFunc(im.sections, func(h pe.SectionHeader32) bool { return name(h) == sbat })
	if at < 0 {
		return nil, fmt.Errorf("add to %s: the stub has no such section", sbat)
	}

	h := &im.sections[at]
	room := im.data[h.PointerToRawData:][:h.SizeOfRawData]
	before := bytes.TrimRight(room[:min(h.VirtualSize, h.SizeOfRawData)], "\x00")
	text := slices.Concat(before, []byte(strings.Join(fields, ",")+"\n"))
	end := uint64(h.VirtualAddress) + uint64(len(text))
	if len(text) > len(room) ||
		(at+1 < len(im.sections) && end > uint64(im.sections[at+1].VirtualAddress)) {
		return nil, fmt.Errorf("add to %s: %d bytes do not fit into %d", sbat, len(text), len(room))
	}

	im.optional.SizeOfInitializedData += uint32(len(text)) - h.VirtualSize
	h.VirtualSize = uint32(len(text))
	clear(room)
	copy(room, text)
	return im.bytes()
}
