package tools

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/image/lock"
	"github.com/loam-os/loam/image/manifest"
)

func TestMirror(t *testing.T) {
	got := Mirror("http://mirror.example/debian/", "http://mirror.example/debian-security")
	want := []Source{
		{"http://mirror.example/debian", "trixie"},
		{"http://mirror.example/debian", "trixie-updates"},
		{"http://mirror.example/debian-security", "trixie-security"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A mirror alone is what an operator names; a system without security updates
// is not what he wants.
func TestAMirrorHasSecurity(t *testing.T) {
	for _, test := range []struct {
		name, uri string
		want      Source
	}{
		{
			"a mirror",
			"http://mirror.example/debian/",
			Source{"http://mirror.example/debian-security", "trixie-security"},
		},
		{
			"an archive as it was once",
			"http://snapshot.example/archive/debian/20261123T021407Z",
			Source{"http://snapshot.example/archive/debian-security/20261123T021407Z",
				"trixie-security"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := Mirror(test.uri)
			if len(got) != 3 || got[2] != test.want {
				t.Errorf("%v, want %v last", got, test.want)
			}
		})
	}

	if got := Mirror("http://m/a-security/20261123T021407Z", "http://m/debian"); len(got) != 3 {
		t.Errorf("a security archive is named: %v", got)
	}
	if got := Mirror(); len(got) != 0 {
		t.Errorf("no mirror at all: %v", got)
	}
}

// The Release file of an archive as it was is past its date.
func TestAnArchiveAsItWasHasNoExpiry(t *testing.T) {
	for _, test := range []struct {
		source Source
		want   bool
	}{
		{Source{"http://s/debian/20261123T021407Z", "trixie"}, true},
		{Source{"http://m/debian", "trixie"}, false},
	} {
		got := strings.Contains(test.source.String(), "[check-valid-until=no]")
		if got != test.want {
			t.Errorf("%s", test.source)
		}
		text := test.source.Deb822("main")
		if got := strings.Contains(text, "Check-Valid-Until: no\n"); got != test.want ||
			!strings.HasSuffix(text, "\n\n") {
			t.Errorf("%s", text)
		}
	}
}

func TestInstalled(t *testing.T) {
	const out = "Reading package lists...\nInst gcc-14-base (14.2.0-19 Debian:13.2/stable [amd64])\n" +
		"Inst libc6:arm64 (2.41-12+deb13u1 Debian:13.2/stable, Debian-Security:13/stable-security [arm64]) []\n" +
		"Inst bash [5.2] (5.2.37-2+b5 Debian:13.2/stable [amd64])\n" +
		"Inst adduser (3.152 Debian:13.2/stable [all])\nConf adduser (3.152 Debian:13.2/stable [all])\n"
	want := []lock.Package{
		{Name: "gcc-14-base", Arch: "amd64", Version: "14.2.0-19"},
		{Name: "libc6", Arch: "arm64", Version: "2.41-12+deb13u1"},
		{Name: "bash", Arch: "amd64", Version: "5.2.37-2+b5"},
		{Name: "adduser", Arch: "all", Version: "3.152"},
	}
	if diff := cmp.Diff(want, installed(out)); diff != "" {
		t.Error(diff)
	}
}

func TestReadIndex(t *testing.T) {
	file := filepath.Join(t.TempDir(), "Packages")
	const text = "Package: adduser\nVersion: 3.152\nArchitecture: all\nDescription: add users\n" +
		" and groups\nSHA256: aa\n\nPackage: bash\nVersion: 5.2\nArchitecture: amd64\nSHA256: bb\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}

	a := Archive{offered: map[string][]lock.Package{}}
	for range 2 { // a package is in the indexes of all architectures
		if err := a.readIndex(file); err != nil {
			t.Fatal(err)
		}
	}

	want := map[string][]lock.Package{
		"adduser all": {{
			Name:    "adduser",
			Arch:    "all",
			Version: "3.152",
			SHA256:  "aa",
		}},
		"bash amd64": {{
			Name:    "bash",
			Arch:    "amd64",
			Version: "5.2",
			SHA256:  "bb",
		}},
	}
	if diff := cmp.Diff(want, a.offered); diff != "" {
		t.Error(diff)
	}
}

func TestReleaseDate(t *testing.T) {
	want := time.Date(2026, 11, 21, 9, 42, 6, 0, time.UTC)
	got := releaseDate([]byte("Origin: Debian\nDate: Sat, 21 Nov 2026 09:42:06 UTC\nValid-Until: x\n"))
	if !got.Equal(want) {
		t.Errorf("%v, want %v", got, want)
	}
	if !releaseDate([]byte("Date: yesterday\n")).IsZero() {
		t.Error("a date of no form")
	}
}

func TestDebianArchives(t *testing.T) {
	tests := []struct {
		name, lines string
		want        []string
	}{
		{"each Debian archive once", "Debian|http://m/debian/\nDebian-Security|http://m/sec/\n" +
			"Debian|http://m/debian/\n", []string{"http://m/debian/", "http://m/sec/"}},
		{"no archive of others", "Ubuntu|http://m/ubuntu/\n|http://m/tools\n" +
			"Node Source|http://m/node\n", nil},
		{"nothing configured", "", nil},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, debianArchives(tt.lines)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReadSources(t *testing.T) {
	dir := t.TempDir()
	list := filepath.Join(dir, "etc/apt/sources.list")
	if err := os.MkdirAll(filepath.Dir(list), 0o755); err != nil {
		t.Fatal(err)
	}

	text := "# comment\ndeb http://m/debian trixie main\n" +
		"deb [signed-by=/k arch=amd64] http://m/sec/ trixie-security main\n" +
		"deb-src http://m/debian trixie main\n"
	if err := os.WriteFile(list, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}

	got, err := readSources(dir)
	if err != nil {
		t.Fatal(err)
	}

	want := []Source{{"http://m/debian", "trixie"}, {"http://m/sec", "trixie-security"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestDigest(t *testing.T) {
	a := Env{Packages: []string{"mkosi"}, Mirrors: []string{"http://a"}}
	b := Env{Packages: []string{"mkosi"}, Mirrors: []string{"http://b"}, Cache: "/elsewhere"}
	if a.digest() != b.digest() {
		t.Error("the mirror changes the name of the tree")
	}
	if c := (Env{Packages: []string{"mkosi", "qemu"}}); a.digest() == c.digest() {
		t.Error("another package does not change the name of the tree")
	}

	locked := a
	locked.Lock = lock.New([]lock.Package{{Name: "mkosi", Version: "25"}})
	if a.digest() == locked.digest() {
		t.Error("a lock does not change the name of the tree")
	}
}

func TestArchitectures(t *testing.T) {
	packages := []string{
		"mkosi", "grub-efi:arm64", "systemd-boot-efi:amd64", "systemd-boot-efi:arm64",
	}
	if diff := cmp.Diff([]string{"amd64", "arm64"}, Architectures("amd64", packages)); diff != "" {
		t.Error(diff)
	}
}

func TestReadList(t *testing.T) {
	a := filepath.Join(t.TempDir(), "a")
	b := filepath.Join(t.TempDir(), "b")
	if err := os.WriteFile(a, []byte("# judges\nmtools\n\nkmod\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(b, []byte("kmod\nzstd\n"), 0o644); err != nil {
		t.Fatal(err)
	}

	got, err := ReadList(a, b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"kmod", "mtools", "zstd"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestPackage(t *testing.T) {
	dir := t.TempDir()
	status := filepath.Join(dir, "var/lib/dpkg/status")
	if err := os.MkdirAll(filepath.Dir(status), 0o755); err != nil {
		t.Fatal(err)
	}

	const text = "Package: systemd-boot-efi\nArchitecture: arm64\nVersion: 257.2\n\n" +
		"Package: systemd-boot-efi\nStatus: install ok installed\nArchitecture: amd64\n" +
		"Depends: systemd (>= 1)\nSource: systemd\nVersion: 257.1\n\nPackage: zstd\nArchitecture: amd64\nVersion: 1\n"
	if err := os.WriteFile(status, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}

	for _, want := range []manifest.Package{
		{Name: "systemd-boot-efi", Version: "257.1", Arch: "amd64", Source: "systemd"},
		{Name: "systemd-boot-efi", Version: "257.2", Arch: "arm64"},
	} {
		got, err := Tree{Dir: dir}.Package(want.Name, want.Arch)
		if err != nil || got != want {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
	}
	if _, err := (Tree{Dir: dir}).Package("zstd", "arm64"); err == nil {
		t.Error("a package for an architecture that it is not there for")
	}
}
