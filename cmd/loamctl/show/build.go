package show

import (
	"fmt"
	"strings"
	"time"

	"github.com/loam-os/loam/image"
	"github.com/loam-os/loam/image/inspect"
	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/image/osv"
)

// Build is a build that is as its manifest says.
type Build struct {
	// ImageID is the name of the image.
	ImageID string `json:"imageID"`
	// Version is its version.
	Version string `json:"version"`

	// Arch is the architecture as Go names it.
	Arch string `json:"arch"`
	// Profile is "cloud" or "metal".
	Profile string `json:"profile"`

	// Files counts the files that were compared with the manifest.
	Files int `json:"files"`
	// Partitions counts the partitions that were.
	Partitions int `json:"partitions"`

	// PackagesDate is the date of Debian's packages, absent if it is not known.
	PackagesDate time.Time `json:"packagesDate,omitzero"`

	// Programs are what firmware starts.
	Programs []Program `json:"programs"`

	// SumsSigner has signed SHA256SUMS; "" without --sums-key.
	SumsSigner string `json:"sumsSigner,omitempty"`

	// Vulnerabilities are absent without --vulnerabilities.
	Vulnerabilities *Vulnerabilities `json:"vulnerabilities,omitempty"`
}

// Program is a program that firmware starts.
type Program struct {
	// Name is "boot loader", or the path of a UKI on the ESP.
	Name string `json:"name"`

	// Signers are the subjects of the certificates that it is signed with.
	Signers []string `json:"signers,omitempty"`

	// PCRKeys are the fingerprints of the keys that have signed its policy for
	// PCR 11.
	PCRKeys []string `json:"pcrKeys,omitempty"`
}

// Vulnerabilities are the known ones of a build.
type Vulnerabilities struct {
	// Database is when the newest entry of the database was changed.
	Database time.Time `json:"database"`

	// WithFix are those that a later version of the software does not have.
	WithFix []osv.Finding `json:"withFix,omitempty"`

	// WithoutFix are those that no version is without yet.
	WithoutFix []osv.Finding `json:"withoutFix,omitempty"`
}

// NewBuild returns the build that a manifest describes, and the image in it.
func NewBuild(m manifest.Manifest, im inspect.Image) Build {
	return Build{
		ImageID:      m.ImageID,
		Version:      m.Version,
		Arch:         m.Arch,
		Profile:      m.Profile,
		Files:        len(m.Files),
		Partitions:   len(m.Partitions),
		PackagesDate: m.PackagesDate,
		Programs:     programs(im),
	}
}

// programs returns what firmware starts of an image.
func programs(im inspect.Image) []Program {
	var all []Program
	if im.Disk != nil {
		all = append(all, Program{Name: "boot loader", Signers: im.Disk.LoaderSigners})
	}
	for _, u := range im.UKIs {
		all = append(all, Program{u.Path, u.Signers, u.PCRKeys})
	}
	return all
}

// NewVulnerabilities sorts what was found in a database.
func NewVulnerabilities(database time.Time, found []osv.Finding) *Vulnerabilities {
	v := Vulnerabilities{Database: database}
	for _, f := range found {
		if f.Fixed != "" {
			v.WithFix = append(v.WithFix, f)
		} else {
			v.WithoutFix = append(v.WithoutFix, f)
		}
	}
	return &v
}

// Text returns the build in a few lines.
func (b Build) Text(now time.Time) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s %s, %s, %s: all %d files and %d partitions are as the manifest says\n",
		b.ImageID, b.Version, b.Arch, b.Profile, b.Files, b.Partitions)
	if !b.PackagesDate.IsZero() {
		fmt.Fprintf(&out, "Debian packages of %s, %s old\n",
			b.PackagesDate.UTC().Format(time.DateOnly), Days(now.Sub(b.PackagesDate)))
	}

	for _, p := range b.Programs {
		fmt.Fprintf(&out, "%s: %s\n", p.Name, signedBy(p.Signers))
		if len(p.PCRKeys) > 0 {
			fmt.Fprintf(&out, "%s, PCR 11: %s\n", p.Name, signedBy(p.PCRKeys))
		}
	}
	if b.SumsSigner != "" {
		fmt.Fprintf(&out, "%s: signed by %s\n", image.SumsName, b.SumsSigner)
	}

	if v := b.Vulnerabilities; v != nil {
		for _, f := range v.WithFix {
			fmt.Fprintln(&out, f)
		}
		fmt.Fprintf(&out, "known vulnerabilities (database of %s): with a fix %d, without %d\n",
			v.Database.UTC().Format(time.DateOnly), len(v.WithFix), len(v.WithoutFix))
	}
	return out.String()
}

func signedBy(names []string) string {
	if len(names) == 0 {
		return "not signed"
	}
	return "signed by " + strings.Join(names, ", ")
}

// Days is an age in whole days.
func Days(age time.Duration) string {
	if n := int(age.Hours() / 24); n != 1 {
		return fmt.Sprintf("%d days", n)
	}
	return "1 day"
}
