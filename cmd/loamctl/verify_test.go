package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/inspect"
	"github.com/loam-os/loam/image/manifest"
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
		name, want string
		software   []manifest.Package
		code       fault.Code
	}{
		{
			name:     "one that has a fix",
			software: []manifest.Package{bash, libc("2.41-12")},
			want: "libc6 2.41-12: DEBIAN-CVE-2026-0001, fixed in 2.41-13\n" +
				"known vulnerabilities (database of 2026-03-01): with a fix 1, without 1\n",
			code: fault.Vulnerable,
		},
		{
			name:     "with the fix",
			software: []manifest.Package{bash, libc("2.41-13")},
			want:     "known vulnerabilities (database of 2026-03-01): with a fix 0, without 1\n",
		},
		{name: "no SBOM", code: fault.BuildDamaged},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out strings.Builder
			im := inspect.Image{UKIs: []inspect.UKI{{Packages: test.software}}}
			err := showVulnerabilities(&out, im, []string{file})
			if fault.Of(err) != test.code {
				t.Errorf("error %v, want %s", hint.Line(err), test.code)
			}
			if diff := cmp.Diff(test.want, out.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
