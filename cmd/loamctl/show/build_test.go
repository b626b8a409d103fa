package show_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/cmd/loamctl/show"
	"github.com/loam-os/loam/image/inspect"
	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/image/osv"
)

func TestABuildAsTextAndAsJSON(t *testing.T) {
	const entry = "EFI/Linux/loam_1.0.0_x86-64.efi"
	date := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	m := manifest.Manifest{
		ImageID:    "loam",
		Version:    "1.0.0",
		Arch:       "amd64",
		Profile:    "cloud",
		Files:      []manifest.File{{Name: "a.raw"}},
		Partitions: []manifest.Partition{{Index: 1}, {Index: 2}},
	}
	dated := m
	dated.PackagesDate = date
	libc := manifest.Package{Name: "libc6", Version: "2.41-12", Arch: "amd64", Source: "glibc"}
	bash := manifest.Package{Name: "bash", Version: "5.2", Arch: "amd64"}

	signed := show.NewBuild(dated, inspect.Image{
		Disk: &inspect.Layout{LoaderSigners: []string{"db", "vendor"}},
		UKIs: []inspect.UKI{{Path: entry, Signers: []string{"db"}, PCRKeys: []string{"c0ffee"}}},
	})
	signed.SumsSigner = "release"
	signed.Vulnerabilities = show.NewVulnerabilities(date, []osv.Finding{
		{ID: "DEBIAN-CVE-2026-0001", CVE: "CVE-2026-0001", Package: libc, Fixed: "2.41-13"},
		{ID: "DEBIAN-CVE-2026-0002", Package: bash},
	})

	for _, test := range []struct {
		name, text, json string
		build            show.Build
	}{
		{
			name: "without signatures",
			build: show.NewBuild(m, inspect.Image{
				Disk: &inspect.Layout{},
				UKIs: []inspect.UKI{{Path: entry}},
			}),
			text: "loam 1.0.0, amd64, cloud: all 1 files and 2 partitions are as the manifest says\n" +
				"boot loader: not signed\n" + entry + ": not signed\n",
			json: `{"imageID": "loam", "version": "1.0.0", "arch": "amd64", "profile": "cloud",
				"files": 1, "partitions": 2,
				"programs": [{"name": "boot loader"}, {"name": "` + entry + `"}]}`,
		},
		{
			name:  "with all",
			build: signed,
			text: "loam 1.0.0, amd64, cloud: all 1 files and 2 partitions are as the manifest says\n" +
				"Debian packages of 2026-03-01, 2 days old\n" +
				"boot loader: signed by db, vendor\n" + entry + ": signed by db\n" +
				entry + ", PCR 11: signed by c0ffee\n" +
				"SHA256SUMS: signed by release\n" +
				"libc6 2.41-12: DEBIAN-CVE-2026-0001, fixed in 2.41-13\n" +
				"known vulnerabilities (database of 2026-03-01): with a fix 1, without 1\n",
			json: `{"imageID": "loam", "version": "1.0.0", "arch": "amd64", "profile": "cloud",
				"files": 1, "partitions": 2, "packagesDate": "2026-03-01T00:00:00Z",
				"programs": [{"name": "boot loader", "signers": ["db", "vendor"]},
					{"name": "` + entry + `", "signers": ["db"], "pcrKeys": ["c0ffee"]}],
				"sumsSigner": "release",
				"vulnerabilities": {"database": "2026-03-01T00:00:00Z",
					"withFix": [{"id": "DEBIAN-CVE-2026-0001", "cve": "CVE-2026-0001",
						"package": {"name": "libc6", "version": "2.41-12", "arch": "amd64",
							"source": "glibc"}, "fixed": "2.41-13"}],
					"withoutFix": [{"id": "DEBIAN-CVE-2026-0002",
						"package": {"name": "bash", "version": "5.2", "arch": "amd64"}}]}}`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.text, test.build.Text(date.Add(50*time.Hour))); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
			text, err := json.Marshal(test.build)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(decode(t, test.json), decode(t, string(text))); diff != "" {
				t.Errorf("JSON (-want +got):\n%s", diff)
			}
		})
	}
}

// decode decodes JSON into maps, without the order of fields.
func decode(t *testing.T, text string) (value any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	return value
}
