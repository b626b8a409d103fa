package osv

import (
	"archive/zip"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/image/meter"
)

// debianText and the others are of the form that OSV publishes.
const (
	debianText = `{
  "schema_version": "1.7.3", "id": "DEBIAN-CVE-2026-0001", "modified": "2026-03-01T00:00:00Z",
  "upstream": ["CVE-2026-0001"],
  "affected": [
    {"package": {"ecosystem": "Debian:12", "name": "glibc"},
     "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}]}]},
    {"package": {"ecosystem": "Debian:13", "name": "glibc"},
     "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "2.41-12+deb13u2"}]}],
     "versions": ["2.41-12"]}]}`
	kernelText = `{"id": "DEBIAN-CVE-2026-0002", "modified": "2026-03-02T00:00:00Z",
  "affected": [{"package": {"ecosystem": "Debian:13", "name": "linux"},
    "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "6.12.10-1"}, {"fixed": "6.12.95-1"}]}]}]}`
	unfixedText = `{"id": "DEBIAN-CVE-2026-0003", "modified": "2026-02-02T00:00:00Z",
  "affected": [{"package": {"ecosystem": "Debian:13", "name": "bash"},
    "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}]}]}]}`
	withdrawnText = `{"id": "DEBIAN-CVE-2026-0004", "modified": "2026-09-02T00:00:00Z",
  "withdrawn": "2026-09-02T00:00:00Z",
  "affected": [{"package": {"ecosystem": "Debian:13", "name": "bash"},
    "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}]}]}]}`
	goText = `{"id": "GO-2026-0001", "aliases": ["CVE-2026-0005", "GHSA-x"], "modified": "2026-01-01T00:00:00Z",
  "affected": [
    {"package": {"ecosystem": "Go", "name": "example.org/a"},
     "ranges": [
       {"type": "GIT", "events": [{"introduced": "0"}]},
       {"type": "SEMVER", "events": [{"introduced": "0"}, {"fixed": "1.2.3"}, {"introduced": "1.3.0"}, {"fixed": "1.3.5"}]}]},
    {"package": {"ecosystem": "Go", "name": "stdlib"},
     "ranges": [{"type": "SEMVER", "events": [{"introduced": "1.26.0-0"}, {"last_affected": "1.26.5"}]}]}]}`
)

func database(t *testing.T, texts ...string) Database {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i, text := range texts {
		f, err := w.Create(string(rune('a'+i)) + ".json")
		if err == nil {
			_, err = f.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}

	file := filepath.Join(t.TempDir(), "all.zip")
	if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	var read, all int64
	db, err := Open(t.Context(), func(_ string, done, total int64) { read, all = done, total }, file)
	if err != nil {
		t.Fatal(err)
	}
	if read != all || all == 0 {
		t.Fatalf("the last report is of %d bytes of %d", read, all)
	}
	return db
}

func TestFind(t *testing.T) {
	db := database(t, debianText, kernelText, unfixedText, withdrawnText, goText)
	for _, test := range []struct {
		name string
		p    manifest.Package
		want string
	}{
		{
			name: "a source package",
			p:    manifest.Package{Name: "libc6", Version: "2.41-12", Arch: "amd64", Source: "glibc"},
			want: "libc6 2.41-12: DEBIAN-CVE-2026-0001, fixed in 2.41-12+deb13u2",
		},
		{
			name: "with the fix",
			p:    manifest.Package{Name: "libc6", Version: "2.41-12+deb13u2", Arch: "amd64", Source: "glibc"},
		},
		{
			name: "another package of that name",
			p:    manifest.Package{Name: "glibc", Version: "v1.0.0"},
		},
		{
			name: "a signed kernel",
			p: manifest.Package{
				Name:          "linux-image-6.12.94+deb13-cloud-amd64",
				Version:       "6.12.94-1",
				Arch:          "amd64",
				Source:        "linux-signed-amd64",
				SourceVersion: "6.12.94+1",
			},
			want: "linux-image-6.12.94+deb13-cloud-amd64 6.12.94-1: DEBIAN-CVE-2026-0002, fixed in 6.12.95-1",
		},
		{
			name: "without a fix",
			p:    manifest.Package{Name: "bash", Version: "5.2.37-2+b10", Arch: "amd64", SourceVersion: "5.2.37-2"},
			want: "bash 5.2.37-2+b10: DEBIAN-CVE-2026-0003, not fixed yet",
		},
		{
			name: "a Go module",
			p:    manifest.Package{Name: "example.org/a", Version: "v1.2.2"},
			want: "example.org/a v1.2.2: GO-2026-0001 (CVE-2026-0005), fixed in 1.2.3",
		},
		{name: "between two ranges", p: manifest.Package{Name: "example.org/a", Version: "v1.2.3"}},
		{
			name: "in the second range",
			p:    manifest.Package{Name: "example.org/a", Version: "v1.3.0"},
			want: "example.org/a v1.3.0: GO-2026-0001 (CVE-2026-0005), fixed in 1.3.5",
		},
		{name: "after all", p: manifest.Package{Name: "example.org/a", Version: "v1.3.5"}},
		{
			name: "the standard library, the last that is affected",
			p:    manifest.Package{Name: "stdlib", Version: "1.26.5"},
			want: "stdlib 1.26.5: GO-2026-0001 (CVE-2026-0005), not fixed yet",
		},
		{name: "the one after it", p: manifest.Package{Name: "stdlib", Version: "1.26.6"}},
		{name: "before it was introduced", p: manifest.Package{Name: "stdlib", Version: "1.25.9"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			all, err := db.Find([]manifest.Package{test.p})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range all {
				got = append(got, f.String())
			}
			if diff := cmp.Diff(test.want, strings.Join(got, "\n")); diff != "" {
				t.Error(diff)
			}
		})
	}

	if got := db.Newest.Format("2006-01-02"); got != "2026-03-02" {
		t.Errorf("newest %s", got)
	}
}

// A version that does not compare must not count as not affected.
func TestAVersionThatDoesNotCompareIsAnError(t *testing.T) {
	db := database(t, goText)
	_, err := db.Find([]manifest.Package{{Name: "stdlib", Version: "devel"}})
	if err == nil || !strings.Contains(err.Error(), "not a semantic version") {
		t.Error(err)
	}
}

func TestDatabases(t *testing.T) {
	write := func(text string) string {
		file := filepath.Join(t.TempDir(), "db.json")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}

	for _, test := range []struct {
		name, file, err string
		entries         int
	}{
		{name: "one entry", file: write(goText), entries: 2},
		{name: "a list", file: write("[" + goText + "," + kernelText + "]"), entries: 3},
		{name: "no file", file: "none.zip", err: "no such file"},
		{name: "something else", file: write("hello"), err: "invalid character"},
		{name: "nothing of ours", file: write("{}"), err: "nothing about Debian:13 or Go in it"},
	} {
		db, err := Open(t.Context(), meter.None, test.file)
		if (test.err == "" && (err != nil || len(db.entries) != test.entries)) ||
			(test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err))) {
			t.Errorf("%s: %d entries, %v", test.name, len(db.entries), err)
		}
	}
}
