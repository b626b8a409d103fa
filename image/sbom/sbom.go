// Package sbom writes and reads what software an image has: a document of SPDX
// 2.3, as JSON, of the packages of the distribution and of the Go modules that
// programs are made of, Loam's own and others'.
package sbom

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"

	"github.com/loam-os/loam/image/manifest"
)

// About is an image.
type About struct {
	ImageID, Version, Arch, Profile string

	// Namespace is a URI that no other document has.
	Namespace string
	Created   time.Time

	// Packages are the distribution's packages, Programs the paths of Go
	// programs.
	Packages []manifest.Package
	Programs []string
}

// Encode makes the document. Equal inputs give equal bytes.
func Encode(a About) ([]byte, error) {
	image := &spdx.Package{
		PackageName:             a.ImageID,
		PackageVersion:          a.Version,
		PackageSPDXIdentifier:   "Image",
		PackageDownloadLocation: unknown,
		PackageComment:          a.Profile + " image for " + a.Arch,
		PrimaryPackagePurpose:   "OPERATING-SYSTEM",
	}

	all := []*spdx.Package{image}
	for _, p := range a.Packages {
		purl := "pkg:deb/debian/" + escape(p.Name) + "@" + escape(p.Version) + "?arch=" + p.Arch
		if source, version := p.SourceOf(); source != p.Name || version != p.Version {
			purl += upstream + escape(source) + "@" + escape(version)
		}
		all = append(all, packageOf("Debian", p.Name, p.Version, p.Arch, purl))
	}

	modules, err := Modules(a.Programs)
	if err != nil {
		return nil, err
	}

	for _, m := range modules {
		all = append(all,
			packageOf("Go", m.Name, m.Version, "",
				"pkg:golang/"+escape(m.Name)+"@"+escape(m.Version)))
	}

	doc := &spdx.Document{
		SPDXVersion:       spdx.Version,
		DataLicense:       spdx.DataLicense,
		SPDXIdentifier:    document,
		DocumentName:      a.ImageID + "_" + a.Version,
		DocumentNamespace: a.Namespace,
		Packages:          all,
		CreationInfo: &spdx.CreationInfo{
			Created:  a.Created.UTC().Format(time.RFC3339),
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "loamctl"}},
		},
		Relationships: []*spdx.Relationship{relation(document, common.TypeRelationshipDescribe,
			image.PackageSPDXIdentifier)},
	}

	for _, p := range all[1:] {
		doc.Relationships = append(doc.Relationships,
			relation(image.PackageSPDXIdentifier, common.TypeRelationshipContains,
				p.PackageSPDXIdentifier))
	}

	var b bytes.Buffer
	if err := spdxjson.Write(doc, &b); err != nil {
		return nil, fmt.Errorf("encode SBOM: %w", err)
	}

	return b.Bytes(), nil
}

// upstream is the qualifier of a purl with the source package, as scanners write
// and read it.
const upstream = "&upstream="

const (
	document = common.ElementID("DOCUMENT")
	// unknown is what SPDX has for facts that the author of a document does not
	// state.
	unknown = "NOASSERTION"
)

func relation(a common.ElementID, kind string, b common.ElementID) *spdx.Relationship {
	return &spdx.Relationship{
		RefA:         common.DocElementID{ElementRefID: a},
		RefB:         common.DocElementID{ElementRefID: b},
		Relationship: kind,
	}
}

// packageOf is a package with its purl, which says where it comes from and for
// which architecture it is.
func packageOf(kind, name, version, arch, purl string) *spdx.Package {
	return &spdx.Package{
		PackageName:    name,
		PackageVersion: version,
		PackageSPDXIdentifier: common.ElementID(
			identifier(kind + "/" + name + "/" + cmp.Or(arch, version)),
		),
		PackageDownloadLocation: unknown,
		PackageExternalReferences: []*spdx.PackageExternalReference{
			{
				Category: common.CategoryPackageManager,
				RefType:  common.TypePackageManagerPURL,
				Locator:  purl,
			},
		},
	}
}

// identifier has letters, digits, dots and dashes only (SPDX 2.3, 7.2). A dash
// is written twice, and what must not be there as a dash and its code, so that
// two names have two.
func identifier(name string) string {
	var b strings.Builder
	for _, r := range name {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '.':
			b.WriteRune(r)
		case r == '-':
			b.WriteString("--")
		default:
			fmt.Fprintf(&b, "-%02x", r)
		}
	}
	return b.String()
}

// escape is a name or a version in a purl.
func escape(text string) string {
	return strings.NewReplacer("%", "%25", ":", "%3A", "+", "%2B").Replace(text)
}

// sourceOf reads NAME@VERSION, and leaves out what is the package's own.
func sourceOf(text string, p manifest.Package) (name, version string) {
	name, version, _ = strings.Cut(text, "@")
	if name == p.Name {
		name = ""
	}
	if version == p.Version {
		version = ""
	}
	return name, version
}

// unescape is the inverse of escape.
func unescape(text string) string {
	return strings.NewReplacer("%25", "%", "%3A", ":", "%2B", "+").Replace(text)
}

// Modules returns the Go modules of all programs, and Go itself, sorted by name.
// programs are paths.
func Modules(programs []string) ([]manifest.Package, error) {
	var all []manifest.Package
	for _, file := range programs {
		info, err := buildinfo.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("SBOM: %w", err)
		}
		all = append(all,
			manifest.Package{Name: "stdlib", Version: strings.TrimPrefix(info.GoVersion, "go")})
		for _, m := range append(info.Deps, &info.Main) {
			if m.Replace != nil {
				m = m.Replace
			}
			if m.Version == "" || m.Version == "(devel)" {
				continue // Loam's own programs, which have the image's version
			}
			all = append(all, manifest.Package{Name: m.Path, Version: m.Version})
		}
	}

	slices.SortFunc(all, func(a, b manifest.Package) int {
		return strings.Compare(a.Name+" "+a.Version, b.Name+" "+b.Version)
	})

	return slices.Compact(all), nil
}

// Decode reads the packages of a document, the distribution's and Go modules,
// the latter without an architecture. The document may be from any source:
// Decode does not use tools-golang, which panics at a package that is null.
func Decode(text []byte) ([]manifest.Package, error) {
	var doc struct {
		SPDXVersion string
		Packages    []struct {
			Name, VersionInfo string
			ExternalRefs      []struct{ ReferenceType, ReferenceLocator string }
		}
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("SBOM: %w", err)
	}
	if doc.SPDXVersion != spdx.Version {
		return nil, fmt.Errorf("SBOM: version %.80q, want %q", doc.SPDXVersion, spdx.Version)
	}

	var all []manifest.Package
	for _, p := range doc.Packages {
		for _, ref := range p.ExternalRefs {
			if ref.ReferenceType == common.TypePackageManagerPURL {
				_, arch, _ := strings.Cut(ref.ReferenceLocator, "?arch=")
				arch, source, _ := strings.Cut(arch, upstream)
				read := manifest.Package{Name: p.Name, Version: p.VersionInfo, Arch: arch}
				read.Source, read.SourceVersion = sourceOf(unescape(source), read)
				all = append(all, read)
			}
		}
	}

	return all, nil
}
