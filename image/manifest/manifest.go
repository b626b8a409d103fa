// Package manifest is the contract between the builder and whoever uses an
// image: what an image claims about itself, in one JSON file beside it. The
// builder checks every claim by reading the finished image again.
package manifest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/loam-os/loam/hint/fault"
)

// Format is the version of this document's shape.
const Format = 1

// Manifest describes one image. Sizes and offsets are in bytes.
type Manifest struct {
	Format  int    `json:"format"`
	ImageID string `json:"imageID"`
	Version string `json:"version"`

	// Arch as Go names it: amd64, arm64. Profile: cloud, metal.
	Arch    string `json:"arch"`
	Profile string `json:"profile"`

	// RootHash is the root of the verity tree, 64 hex digits.
	RootHash string `json:"rootHash"`

	// Kernel is the kernel release, Cmdline its full command line.
	Kernel  string `json:"kernel"`
	Cmdline string `json:"cmdline"`

	// LiveCmdline is the command line of the PXE set, "" for a build without
	// one.
	LiveCmdline string `json:"liveCmdline,omitempty"`

	// UKI is the path of the unified kernel image on the ESP.
	UKI        string      `json:"uki"`
	DiskGUID   uuid.UUID   `json:"diskGUID"`
	SectorSize int         `json:"sectorSize"`
	DiskSize   int64       `json:"diskSize"`
	Partitions []Partition `json:"partitions"`

	// Files are the build's outputs, by name.
	Files []File `json:"files"`

	// Packages are the distribution packages in the image.
	Packages []Package `json:"packages"`

	// PackagesDate is the date of the newest index of the distribution that the
	// packages come from, zero if it is not known.
	PackagesDate time.Time `json:"packagesDate,omitzero"`
}

// Partition is one entry of the image's partition table.
type Partition struct {
	Index int       `json:"index"`
	Label string    `json:"label"`
	Type  uuid.UUID `json:"type"`
	UUID  uuid.UUID `json:"uuid"`
	Start int64     `json:"start"`
	Size  int64     `json:"size"`
}

// File is an output. SHA256 is in hex.
type File struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Output is the file whose name ends with that, after the architecture: ".raw"
// is not ".usb.raw".
func (m Manifest) Output(suffix string) (f File, ok bool) {
	for _, f := range m.Files {
		_, after, _ := strings.Cut(f.Name[strings.LastIndexByte(f.Name, '_')+1:], ".")
		if "."+after == suffix {
			return f, true
		}
	}
	return File{}, false
}

// Package is a distribution package.
type Package struct {
	// Name is as dpkg names it, or the path of a Go module.
	Name string `json:"name"`
	// Version is as dpkg names it, or of a Go module.
	Version string `json:"version"`
	// Arch is as dpkg names it; a Go module has none.
	Arch string `json:"arch"`

	// Source is the source package that it is made of, by which Debian names
	// vulnerabilities; "" if it is of the same name.
	Source string `json:"source,omitempty"`
	// SourceVersion is the version of that; "" if it is the same.
	SourceVersion string `json:"sourceVersion,omitempty"`
}

// SetSource sets the source package: NAME, or NAME (VERSION) as dpkg writes it
// (deb-control(5), Source). "" is the package itself. Version is set before.
func (p *Package) SetSource(text string) {
	name, version, _ := strings.Cut(strings.TrimSuffix(text, ")"), " (")
	p.Source = ""
	p.SourceVersion = ""
	if name != p.Name {
		p.Source = name
	}
	if version != p.Version {
		p.SourceVersion = version
	}
}

// SourceOf returns the name and the version of the source package.
func (p Package) SourceOf() (name, version string) {
	return cmp.Or(p.Source, p.Name), cmp.Or(p.SourceVersion, p.Version)
}

// Encode writes m as indented JSON with a final newline.
func (m Manifest) Encode() ([]byte, error) {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode manifest: %w", err)
	}
	return append(text, '\n'), nil
}

// Decode reads a manifest. Unknown fields and other formats are errors.
func Decode(text []byte) (Manifest, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()

	var m Manifest
	if err := dec.Decode(&m); err != nil {
		return Manifest{}, fault.With(fmt.Errorf("decode manifest: %w", err), fault.NotABuild)
	}

	if m.Format != Format {
		return Manifest{}, fault.With(fmt.Errorf("decode manifest: format %d, this program knows %d",
			m.Format, Format), fault.NotABuild)
	}

	return m, nil
}
