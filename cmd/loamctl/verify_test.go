package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/image/meter"
)

func TestKnownVulnerabilitiesOfABuild(t *testing.T) {
	const database = `[
{"id": "DEBIAN-CVE-2026-0001", "modified": "2026-03-01T00:00:00Z", "affected": [
  {"package": {"ecosystem": "Debian:13", "name": "glibc"},
   "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "2.41-13"}]}]}]},
{"id": "DEBIAN-CVE-2026-0002", "modified": "2026-02-01T00:00:00Z", "affected": [
  {"package": {"ecosystem": "Debian:13", "name": "bash"},
   "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}]}]}]}]`
	file := filepath.Join(t.TempDir(), "debian.json")
	if err := os.WriteFile(file, []byte(database), 0o644); err != nil {
		t.Fatal(err)
	}

	libc := func(version string) manifest.Package {
		return manifest.Package{Name: "libc6", Version: version, Arch: "amd64", Source: "glibc"}
	}
	bash := manifest.Package{Name: "bash", Version: "5.2", Arch: "amd64"}
	for _, test := range []struct {
		name     string
		software []manifest.Package
		want     []int // with a fix, and without
		code     fault.Code
	}{
		{
			name:     "one that has a fix",
			software: []manifest.Package{bash, libc("2.41-12")},
			want:     []int{1, 1},
			code:     fault.Vulnerable,
		},
		{
			name:     "with the fix",
			software: []manifest.Package{bash, libc("2.41-13")},
			want:     []int{0, 1},
		},
		{name: "no SBOM", code: fault.BuildDamaged},
	} {
		t.Run(test.name, func(t *testing.T) {
			found, err := findVulnerabilities(
				t.Context(), test.software, []string{file}, meter.None)
			if err == nil {
				err = refuseVulnerable(found)
			}
			if fault.Of(err) != test.code {
				t.Errorf("error %v, want %s", hint.Line(err), test.code)
			}
			if test.want == nil {
				return
			}

			counts := []int{len(found.WithFix), len(found.WithoutFix)}
			if diff := cmp.Diff(test.want, counts); diff != "" {
				t.Error(diff)
			}
			if want := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC); !found.Database.Equal(want) {
				t.Errorf("database of %s, want %s", found.Database, want)
			}
		})
	}
}
