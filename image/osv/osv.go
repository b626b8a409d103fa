// Package osv compares the software of an image with a database of known
// vulnerabilities, in the format that OSV, the Go project and Debian publish
// (Open Source Vulnerability format 1.7): a ZIP archive with a JSON file for
// each, such as
// https://osv-vulnerabilities.storage.googleapis.com/Debian/all.zip, or a JSON
// file with one, or with a list. There is no network in it.
//
//	[Open] --> Database.Find(software) --> []Finding
package osv

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	debian "github.com/knqyf263/go-deb-version"
	"golang.org/x/mod/semver"

	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/image/meter"
)

// Ecosystems of the software of an image. Debian's has the number of the
// release that images are made of.
const (
	goEcosystem     = "Go"
	debianEcosystem = "Debian:13"
)

// Database is a list of vulnerabilities of the ecosystems of images.
type Database struct {
	// Newest is when the newest entry was changed.
	Newest time.Time

	entries map[product][]entry
}

// product is a package of an ecosystem: a Go module, or Debian's source package.
type product struct{ ecosystem, name string }

// entry is what a vulnerability says of a product.
type entry struct {
	id, alias string
	ranges    []versions
	listed    []string
}

// record is a vulnerability, as far as it matters here.
type record struct {
	ID                string
	Modified          time.Time
	Withdrawn         time.Time
	Aliases, Upstream []string
	Affected          []struct {
		Package  struct{ Ecosystem, Name string }
		Ranges   []versions
		Versions []string
	}
}

// versions is a range of versions: each event begins or ends a part of it.
type versions struct {
	Type   string
	Events []event
}

type event struct {
	Introduced, Fixed string
	LastAffected      string `json:"last_affected"`
}

// maxRecord bounds the size of one file of a database.
const maxRecord = 64 << 20

// Open reads databases. report is told how far that is.
func Open(ctx context.Context, report meter.Report, files ...string) (Database, error) {
	db := Database{entries: map[product][]entry{}}
	for _, file := range files {
		if err := db.read(ctx, report, file); err != nil {
			return Database{}, fmt.Errorf("database of vulnerabilities %s: %w", file, err)
		}
	}
	if len(db.entries) == 0 {
		return Database{}, fmt.Errorf("database of vulnerabilities %s: nothing about %s or %s in it",
			strings.Join(files, ", "), debianEcosystem, goEcosystem)
	}
	return db, nil
}

func (db *Database) read(ctx context.Context, report meter.Report, file string) error {
	archive, err := zip.OpenReader(file)
	if errors.Is(err, zip.ErrFormat) {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		return db.add(text)
	}
	if err != nil {
		return err
	}
	defer archive.Close()

	records := slices.DeleteFunc(archive.File, func(f *zip.File) bool {
		return !strings.HasSuffix(f.Name, ".json")
	})
	all := int64(0)
	for _, f := range records {
		all += int64(f.CompressedSize64)
	}

	part := meter.Begin(ctx, "read", all, report)
	for _, f := range records {
		text, err := readMember(f)
		if err == nil {
			err = db.add(text)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		if err := part.Add(int64(f.CompressedSize64)); err != nil {
			return err
		}
	}
	return nil
}

func readMember(f *zip.File) ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()

	text, err := io.ReadAll(io.LimitReader(r, maxRecord+1))
	if err == nil && len(text) > maxRecord {
		err = fmt.Errorf("more than %d bytes", maxRecord)
	}
	return text, err
}

// add reads one vulnerability, or a list.
func (db *Database) add(text []byte) error {
	var all []record
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("[")) {
		if err := json.Unmarshal(text, &all); err != nil {
			return err
		}
	} else {
		var one record
		if err := json.Unmarshal(text, &one); err != nil {
			return err
		}
		all = append(all, one)
	}

	for _, r := range all {
		db.addRecord(r)
	}
	return nil
}

func (db *Database) addRecord(r record) {
	if !r.Withdrawn.IsZero() {
		return
	}

	isCVE := func(id string) bool { return strings.HasPrefix(id, "CVE-") }
	ids := slices.Concat(r.Upstream, r.Aliases)
	alias := ""
	if at := slices.IndexFunc(ids, isCVE); at >= 0 {
		alias = ids[at]
	}

	for _, a := range r.Affected {
		if a.Package.Ecosystem != goEcosystem && a.Package.Ecosystem != debianEcosystem {
			continue
		}
		if r.Modified.After(db.Newest) {
			db.Newest = r.Modified
		}
		of := product{a.Package.Ecosystem, a.Package.Name}
		db.entries[of] = append(db.entries[of], entry{
			id:     r.ID,
			alias:  alias,
			ranges: a.Ranges,
			listed: a.Versions,
		})
	}
}

// Finding is a vulnerability of an image.
type Finding struct {
	// ID is its name in the database.
	ID string `json:"id"`
	// CVE is the name in MITRE's list; "" if it has none there.
	CVE string `json:"cve,omitempty"`

	// Package is the software that has it.
	Package manifest.Package `json:"package"`

	// Fixed is the first version without it, "" if there is none yet.
	Fixed string `json:"fixed,omitempty"`
}

// String returns a line.
func (f Finding) String() string {
	id := f.ID
	if f.CVE != "" && !strings.Contains(f.ID, f.CVE) {
		id += " (" + f.CVE + ")"
	}
	if f.Fixed == "" {
		return fmt.Sprintf("%s %s: %s, not fixed yet", f.Package.Name, f.Package.Version, id)
	}
	return fmt.Sprintf("%s %s: %s, fixed in %s", f.Package.Name, f.Package.Version, id, f.Fixed)
}

// Find returns the vulnerabilities of the software of an image, by package.
func (db Database) Find(software []manifest.Package) ([]Finding, error) {
	var all []Finding
	for _, p := range software {
		of, version, compare := identify(p)
		for _, e := range db.entries[of] {
			fixed, affected, err := e.affects(version, compare)
			if err != nil {
				return nil, fmt.Errorf("%s: %s %s: %w", e.id, p.Name, p.Version, err)
			}
			if affected {
				all = append(all, Finding{ID: e.id, CVE: e.alias, Package: p, Fixed: fixed})
			}
		}
	}

	slices.SortFunc(all, func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.Package.Name, b.Package.Name), strings.Compare(a.ID, b.ID))
	})
	return slices.Compact(all), nil
}

// identify returns what databases call a package, and how its versions compare.
func identify(p manifest.Package) (product, string, func(a, b string) (int, error)) {
	if p.Arch == "" {
		return product{goEcosystem, p.Name}, strings.TrimPrefix(p.Version, "v"), compareGo
	}
	name, version := p.SourceOf()
	if strings.HasPrefix(name, "linux-signed-") {
		// The source of a signed kernel has the version of "linux" with another
		// separator, and databases have only that.
		name = "linux"
		if at := strings.LastIndexByte(version, '+'); at >= 0 {
			version = version[:at] + "-" + version[at+1:]
		}
	}
	return product{debianEcosystem, name}, version, compareDebian
}

func compareGo(a, b string) (int, error) {
	for _, v := range []string{a, b} {
		if !semver.IsValid("v" + v) {
			return 0, fmt.Errorf("version %.80q: not a semantic version", v)
		}
	}
	return semver.Compare("v"+a, "v"+b), nil
}

func compareDebian(a, b string) (int, error) {
	x, err := debian.NewVersion(a)
	if err != nil {
		return 0, fmt.Errorf("version %.80q: %w", a, err)
	}
	y, err := debian.NewVersion(b)
	if err != nil {
		return 0, fmt.Errorf("version %.80q: %w", b, err)
	}
	return x.Compare(y), nil
}

// affects reports whether a version is affected, and the first later one that
// is not, "" if there is none.
func (e entry) affects(
	version string, compare func(a, b string) (int, error),
) (fixed string, affected bool, err error) {
	for _, r := range e.ranges {
		if r.Type != "SEMVER" && r.Type != "ECOSYSTEM" {
			continue // commits
		}
		if fixed, affected, err := r.contains(version, compare); err != nil || affected {
			return fixed, affected, err
		}
	}
	return "", slices.Contains(e.listed, version), nil
}

// contains reports whether a version is in the range, and where its part ends:
// the events are those of one line of development, in any order.
func (r versions) contains(
	version string, compare func(a, b string) (int, error),
) (fixed string, in bool, err error) {
	begin, end := "", "" // the last beginning up to version, and the first end after
	ended := ""          // the last end up to version
	for _, e := range r.Events {
		at := cmp.Or(e.Introduced, e.Fixed, e.LastAffected)
		if at == "" {
			continue
		}

		c := 1 // version compared with the event; 0 is before all versions
		if at != "0" {
			if c, err = compare(version, at); err != nil {
				return "", false, err
			}
		}
		switch later := func(than string) bool { return isLater(compare, at, than) }; {
		case e.Introduced != "" && c >= 0 && (begin == "" || later(begin)):
			begin = at
		case e.Fixed != "" && c >= 0, e.LastAffected != "" && c > 0:
			if ended == "" || later(ended) {
				ended = at
			}
		case e.Fixed != "" && (end == "" || !later(end)):
			end = at
		}
	}

	in = begin != "" && (ended == "" || (begin != "0" && isLater(compare, begin, ended)))
	return end, in, nil
}

// isLater reports whether a is a later version than b, both of which compare
// knows, or b is 0.
func isLater(compare func(a, b string) (int, error), a, b string) bool {
	if a == "0" || b == "0" {
		return a != "0"
	}
	c, err := compare(a, b)
	return err == nil && c > 0
}
