package tools

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/image/lock"
)

// localArchive is an archive in a directory: foo in two versions, bar that
// depends on it, and baz, each under apt's eyes as Debian's.
func localArchive(t *testing.T, preferences string) *Archive {
	t.Helper()
	if _, err := exec.LookPath("apt-get"); err != nil {
		// Package test/judge, which says so elsewhere, imports this one.
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}

	repository := t.TempDir()
	var index strings.Builder
	for _, p := range []struct{ name, version, more string }{
		{"foo", "1.0", ""},
		{"foo", "2.0", ""},
		{"bar", "1.0", "Depends: foo\n"},
		{"baz", "1.0", ""},
	} {
		fmt.Fprintf(&index, "Package: %s\nVersion: %s\nArchitecture: amd64\nMaintainer: x\n%s"+
			"Filename: %[1]s_%[2]s.deb\nSize: 1\nSHA256: %064[4]d\nDescription: x\n\n",
			p.name, p.version, p.more, len(p.name)*100+len(index.String()))
	}

	a := &Archive{dir: t.TempDir(), archs: []string{"amd64"}, offered: map[string][]lock.Package{}}
	if err := a.prepare(nil, nil); err != nil {
		t.Fatal(err)
	}

	for name, text := range map[string]string{
		filepath.Join(repository, "Packages"): index.String(),
		filepath.Join(repository,
			"Release"): "Origin: Debian\nDate: Sat, 21 Nov 2026 09:42:06 UTC\n",
		filepath.Join(a.dir,
			"etc/apt/loam.sources"): "Types: deb\nURIs: file:" + repository + "\nSuites: ./\nTrusted: yes\n",
		filepath.Join(a.dir, "etc/apt/preferences.d/loam"): preferences,
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	if err := a.update(t.Context(), io.Discard); err != nil {
		t.Fatal(err)
	}
	if err := a.read(); err != nil {
		t.Fatal(err)
	}

	return a
}

// versions installs a package with what it depends on, and returns what apt
// would install.
func versions(t *testing.T, a *Archive, name string) (list []string, err error) {
	t.Helper()
	packages, err := a.Resolve(t.Context(), a.archs, "", []string{name})
	for _, p := range packages {
		list = append(list, p.Name+" "+p.Version)
	}
	return list, err
}

func TestAptTakesTheNewestWithoutALock(t *testing.T) {
	got, err := versions(t, localArchive(t, ""), "bar")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"foo 2.0", "bar 1.0"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestAptTakesWhatTheLockHas(t *testing.T) {
	l := lock.New([]lock.Package{
		{Name: "foo", Arch: "amd64", Version: "1.0"},
		{Name: "bar", Arch: "amd64", Version: "1.0"},
	})
	a := localArchive(t, l.Preferences())

	got, err := versions(t, a, "bar")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"foo 1.0", "bar 1.0"}, got); diff != "" {
		t.Error(diff)
	}

	if got, err := versions(t, a, "baz"); err == nil {
		t.Errorf("what is not in the lock: %v", got)
	}
}

func TestArchiveSaysWhatItHas(t *testing.T) {
	a := localArchive(t, "")
	if n := len(a.Offered("foo", "amd64")); n != 2 || len(a.Offered("foo", "arm64")) > 0 {
		t.Errorf("%d versions of foo", n)
	}
	if got := a.Date().Format("2006-01-02"); got != "2026-11-21" {
		t.Errorf("date %s", got)
	}

	want := []lock.Package{{Name: "foo", Arch: "amd64", Version: "0.9"}}
	problems := lock.Missing(want, a.Offered)
	if len(problems) != 1 || problems[0].Error() != "foo amd64 0.9: the archive has 1.0, 2.0" {
		t.Errorf("%v", problems)
	}
}
