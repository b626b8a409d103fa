// Package lock reads and writes the list of the Debian packages that images and
// the tools tree are made of: name, version and SHA-256 of each, so that two
// builds a month apart install the same ones, or say why they cannot.
//
// apt enforces it: [Lock.Preferences] gives each package the one version of the
// list and refuses all others.
package lock

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/loam-os/loam/hint"
)

// Stale is the age from which on a build warns of a lock.
const Stale = 14 * 24 * time.Hour

// File is mkosi/packages.lock. Tools and images have a lock each, so that an
// update of the one leaves the other in the cache.
type File struct {
	// Date is the date of the newest Release file that the packages come from.
	Date time.Time

	// Tools are the packages of the tools tree, Images those of the root trees
	// of all architectures and profiles.
	Tools, Images Lock
}

// Package is a Debian package. Arch is "all" for packages of no architecture.
// SHA256 is in hex.
type Package struct{ Name, Arch, Version, SHA256 string }

// Lock is a list of packages, sorted by name, then by architecture. The nil
// Lock locks nothing.
type Lock []Package

// New returns the lock of the packages, each once.
func New(packages []Package) Lock {
	return slices.Compact(slices.SortedFunc(slices.Values(packages), compare))
}

func compare(a, b Package) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Arch, b.Arch),
		cmp.Compare(a.Version, b.Version))
}

// Read reads a file of locks.
func Read(name string) (File, error) {
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return File{}, hint.With(fmt.Errorf("versions of the packages: %w", err),
			"`loamctl build --update-packages` writes the file, with today's")
	}
	if err != nil {
		return File{}, fmt.Errorf("versions of the packages: %w", err)
	}

	f, err := Parse(text)
	if err != nil {
		return File{}, fmt.Errorf("%s: %w", name, err)
	}

	return f, nil
}

const (
	comment = "# Debian packages of Loam's images and of the tools that build them:\n" +
		"# name, architecture, version, SHA-256. loamctl build --update-packages writes this file.\n"
	dateKey       = "Date: "
	toolsSection  = "[tools]"
	imagesSection = "[images]"
)

// Encode writes the locks as text, which [Parse] reads.
func (f File) Encode() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s%s%s\n", comment, dateKey, f.Date.UTC().Format(time.RFC3339))
	for _, section := range []struct {
		name string
		lock Lock
	}{
		{toolsSection, f.Tools},
		{imagesSection, f.Images},
	} {
		fmt.Fprintf(&b, "\n%s\n", section.name)
		for _, p := range section.lock {
			fmt.Fprintf(&b, "%s %s %s %s\n", p.Name, p.Arch, p.Version, p.SHA256)
		}
	}
	return b.Bytes()
}

// Parse reads what [File.Encode] writes.
func Parse(text []byte) (File, error) {
	var f File
	var section *Lock
	number := 0
	for sc := bufio.NewScanner(bytes.NewReader(text)); sc.Scan(); {
		number++
		line := sc.Text()
		value, isDate := strings.CutPrefix(line, dateKey)

		switch {
		case line == "", line[0] == '#':
		case line == toolsSection:
			section = &f.Tools
		case line == imagesSection:
			section = &f.Images
		case isDate:
			date, err := time.Parse(time.RFC3339, value)
			if err != nil {
				return File{}, fmt.Errorf("line %d: %w", number, err)
			}
			f.Date = date
		default:
			p, err := parsePackage(line)
			if err != nil {
				return File{}, fmt.Errorf("line %d: %w", number, err)
			}
			if section == nil {
				return File{}, fmt.Errorf("line %d: %s is in no section", number, p.Name)
			}
			*section = append(*section, p)
		}
	}

	if f.Date.IsZero() || len(f.Tools) == 0 || len(f.Images) == 0 {
		return File{}, errors.New("no date, no packages of tools, or none of images")
	}

	return f, errors.Join(f.Tools.check(), f.Images.check())
}

func parsePackage(line string) (Package, error) {
	field := strings.Fields(line)
	if len(field) != 4 {
		return Package{}, fmt.Errorf("%d words, want name, architecture, version, SHA-256",
			len(field))
	}

	sum, err := hex.DecodeString(field[3])
	if err != nil || len(sum) != sha256.Size {
		return Package{}, fmt.Errorf("%s: %q is no SHA-256", field[0], field[3])
	}

	return Package{
		Name:    field[0],
		Arch:    field[1],
		Version: field[2],
		SHA256:  field[3],
	}, nil
}

// check reports a package that has two versions.
func (l Lock) check() error {
	for i, p := range l[1:] {
		before := l[i]
		if before.Name == p.Name && before.Arch == p.Arch {
			return fmt.Errorf("%s %s is there twice", p.Name, p.Arch)
		}
		if compare(before, p) > 0 {
			return fmt.Errorf("%s comes after %s: not sorted", p.Name, before.Name)
		}
	}
	return nil
}

// Digest names the packages, 64 hex digits.
func (l Lock) Digest() string {
	sum := sha256.New()
	for _, p := range l {
		fmt.Fprintln(sum, p.Name, p.Arch, p.Version, p.SHA256)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Find returns the package of that name for an architecture.
func (l Lock) Find(name, arch string) (Package, bool) {
	for _, p := range l {
		if p.Name == name && (p.Arch == arch || p.Arch == "all") {
			return p, true
		}
	}
	return Package{}, false
}

// For returns the packages that a system of one of the architectures can have.
func (l Lock) For(archs ...string) []Package {
	var list []Package
	for _, p := range l {
		if p.Arch == "all" || slices.Contains(archs, p.Arch) {
			list = append(list, p)
		}
	}
	return list
}

// Preferences is a file of apt_preferences(5): of each package its version in
// the lock, and of Debian's archives nothing else. A priority above 1000 also
// replaces a later version, one below 0 forbids.
func (l Lock) Preferences() string {
	var b strings.Builder
	b.WriteString("Package: *\nPin: release o=Debian\nPin-Priority: -1\n\n")
	for _, p := range l {
		name := p.Name
		if p.Arch != "all" {
			name += ":" + p.Arch
		}
		fmt.Fprintf(&b, "Package: %s\nPin: version %s\nPin-Priority: 1001\n\n", name, p.Version)
	}
	return b.String()
}

// Missing reports which packages of want are not in the archive as the lock has
// them. have says what the archive has: all versions of a name for an
// architecture.
func Missing(want []Package, have func(name, arch string) []Package) []error {
	var problems []error
	for _, p := range want {
		offered := have(p.Name, p.Arch)
		if !slices.Contains(offered, p) {
			problems = append(problems, missing(p, offered))
		}
	}
	return problems
}

// missing says what the archive offers in place of a package.
func missing(p Package, offered []Package) error {
	if len(offered) == 0 {
		return fmt.Errorf("%s %s %s: not in the archive", p.Name, p.Arch, p.Version)
	}

	var versions []string
	for _, o := range offered {
		if o.Version == p.Version {
			return fmt.Errorf("%s %s %s: SHA-256 %s, the archive's is %s: not the same package",
				p.Name, p.Arch, p.Version, p.SHA256, o.SHA256)
		}
		versions = append(versions, o.Version)
	}

	return fmt.Errorf("%s %s %s: the archive has %s", p.Name, p.Arch, p.Version,
		strings.Join(versions, ", "))
}

// MissingError says that a build cannot have the packages of its lock.
type MissingError struct{ Problems []error }

// shown is how many packages an error names.
const shown = 5

func (e *MissingError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d packages of the lock cannot be downloaded:", len(e.Problems))
	for i, p := range e.Problems {
		if i == shown {
			fmt.Fprintf(&b, "\n  and %d more", len(e.Problems)-shown)
			break
		}
		fmt.Fprintf(&b, "\n  %s", p)
	}

	return b.String()
}

// NewMissingError returns a [MissingError] with a hint.
func NewMissingError(problems []error) error {
	return hint.With(&MissingError{Problems: problems},
		"`loamctl build --update-packages` takes today's packages; for these, "+
			"--mirror http://snapshot.debian.org/archive/debian/TIME, with the date of the lock "+
			"as TIME (20261123T021407Z)")
}
