package rootfs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/image/lock"
	"github.com/loam-os/loam/image/manifest"
)

func TestParsePackages(t *testing.T) {
	got, err := parsePackages([]byte(`{"manifest_version":1,"config":{"name":"tree"},"packages":[
		{"type":"deb","name":"bash","version":"5.2","architecture":"amd64"},
		{"type":"deb","name":"loam-init","version":"1","architecture":"all"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []manifest.Package{{Name: "bash", Version: "5.2", Arch: "amd64"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestSources: databases of vulnerabilities know only the source packages.
func TestSources(t *testing.T) {
	got := []manifest.Package{
		{Name: "bash", Version: "5.2.37-2+b10", Arch: "amd64"},
		{Name: "libc6", Version: "2.41-12", Arch: "amd64"},
		{Name: "login", Version: "1:4.16.0-2+really2.41-5", Arch: "amd64"},
		{Name: "tar", Version: "1.35", Arch: "amd64"},
	}
	addSources(got, `Package: bash
Status: install ok installed
Architecture: amd64
Source: bash (5.2.37-2)
Version: 5.2.37-2+b10

Package: libc6
Architecture: arm64
Source: another

Package: libc6
Source: glibc
Architecture: amd64
Description: a library
 Source: of nothing

Package: login
Architecture: amd64
Source: util-linux (2.41-5)

Package: tar
Architecture: amd64
`)

	var sources []string
	for _, p := range got {
		name, version := p.SourceOf()
		sources = append(sources, name+" "+version)
	}
	want := []string{"bash 5.2.37-2", "glibc 2.41-12", "util-linux 2.41-5", "tar 1.35"}
	if diff := cmp.Diff(want, sources); diff != "" {
		t.Error(diff)
	}
}

func TestParsePackagesRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"what is no JSON":         "Package: bash",
		"a list without packages": `{"packages":[]}`,
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := parsePackages([]byte(text)); err == nil {
				t.Errorf("packages %v, want an error", got)
			}
		})
	}
}

func TestRemaining(t *testing.T) {
	tree := t.TempDir()
	for name, text := range map[string]string{
		".packages/perl-base.list":          "/.\n/usr\n/usr/bin\n/usr/bin/perl\n/usr/share/doc/perl-base/copyright\n",
		".packages/libc6:amd64.list":        "/.\n/usr/lib/libc.so.6\n",
		".packages/bash.list":               "/usr/bin/bash\n/usr/share/man/bash.1\n",
		"usr/lib/libc.so.6":                 "",
		"usr/bin/bash":                      "",
		"usr/share/doc/perl-base/copyright": "",
	} {
		file := filepath.Join(tree, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	bash := manifest.Package{Name: "bash", Version: "5", Arch: "amd64"}
	libc := manifest.Package{Name: "libc6", Version: "2.41", Arch: "amd64"}
	perl := manifest.Package{Name: "perl-base", Version: "5.40", Arch: "amd64"}

	got, err := remaining(tree, []manifest.Package{bash, libc, perl})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]manifest.Package{bash, libc}, got); diff != "" {
		t.Error(diff)
	}

	if _, err := remaining(tree, []manifest.Package{{Name: "dash"}}); err == nil {
		t.Error("a package without a list of files")
	}
}

func TestCheckVersions(t *testing.T) {
	list := filepath.Join(t.TempDir(), "packages.json")
	const text = `[{"name": "bash", "version": "5.2", "arch": "amd64"}]`
	if err := os.WriteFile(list, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}

	for _, test := range []struct {
		name string
		lock lock.Lock
		want string
	}{
		{"no lock", nil, ""},
		{"the version", lock.Lock{{Name: "bash", Arch: "amd64", Version: "5.2"}}, ""},
		{
			"another version",
			lock.Lock{{Name: "bash", Arch: "amd64", Version: "5.3"}},
			"bash amd64 5.2 is installed, and is not in the lock",
		},
		{
			"another package",
			lock.Lock{{Name: "dash", Arch: "amd64", Version: "1"}},
			"bash amd64 5.2 is installed, and is not in the lock",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := checkVersions(list, test.lock)
			if (err == nil) != (test.want == "") || (err != nil && err.Error() != test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}
