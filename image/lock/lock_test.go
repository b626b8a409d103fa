package lock

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/hint"
)

var date = time.Date(2026, 11, 23, 2, 14, 7, 0, time.UTC)

// sum is a SHA-256 that begins with a digit of ours.
func sum(c string) string { return c + strings.Repeat("0", 63) }

func sample() Lock {
	return New([]Package{
		{"zlib1g", "arm64", "1:1.3", sum("c")},
		{"adduser", "all", "3.152", sum("a")},
		{"zlib1g", "amd64", "1:1.3", sum("b")},
		{"adduser", "all", "3.152", sum("a")},
	})
}

// file has the sample for images, and one package of tools.
func file() File {
	return File{
		Date:   date,
		Tools:  New([]Package{{"mkosi", "all", "25.3-5", sum("d")}}),
		Images: sample(),
	}
}

func TestAnEncodedLockIsParsed(t *testing.T) {
	got, err := Parse(file().Encode())
	if err != nil {
		t.Fatal(err)
	}

	want := File{
		Date:  date,
		Tools: Lock{{"mkosi", "all", "25.3-5", sum("d")}},
		Images: Lock{
			{"adduser", "all", "3.152", sum("a")},
			{"zlib1g", "amd64", "1:1.3", sum("b")},
			{"zlib1g", "arm64", "1:1.3", sum("c")},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestParseRefuses(t *testing.T) {
	good := string(file().Encode())

	for _, test := range []struct{ name, old, new, want string }{
		{"a line without a sum", " " + sum("a"), "", "line 9: 3 words"},
		{"a sum that is none", sum("a"), "abc", `line 9: adduser: "abc" is no SHA-256`},
		{"a date that is none", "2026-11-23T", "today T", "line 3: "},
		{"no date", "Date: 2026-11-23T02:14:07Z\n", "", "no date"},
		{
			"two versions of a package",
			"zlib1g arm64",
			"zlib1g amd64",
			"zlib1g amd64 is there twice",
		},
		{"no packages of images", "[images]", "[tools]", "none of images"},
		{"a package in no section", "[tools]\n", "", "line 5: mkosi is in no section"},
		{"another order", "adduser all", "zz all", "not sorted"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse([]byte(strings.Replace(good, test.old, test.new, 1)))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

func TestDigestIsOfThePackages(t *testing.T) {
	a, b := sample(), sample()
	if a.Digest() != b.Digest() {
		t.Error("the same packages are another digest")
	}
	b[0].Version = "3.153"
	if a.Digest() == b.Digest() {
		t.Error("another version does not change the digest")
	}
}

func TestPreferences(t *testing.T) {
	want := "Package: *\nPin: release o=Debian\nPin-Priority: -1\n\n" +
		"Package: adduser\nPin: version 3.152\nPin-Priority: 1001\n\n" +
		"Package: zlib1g:amd64\nPin: version 1:1.3\nPin-Priority: 1001\n\n" +
		"Package: zlib1g:arm64\nPin: version 1:1.3\nPin-Priority: 1001\n\n"
	if diff := cmp.Diff(want, sample().Preferences()); diff != "" {
		t.Error(diff)
	}
}

func TestFor(t *testing.T) {
	l := sample()
	if got := l.For("amd64"); len(got) != 2 || got[1].Arch != "amd64" {
		t.Errorf("amd64: %v", got)
	}
	if _, ok := l.Find("adduser", "arm64"); !ok {
		t.Error("a package for all architectures is not found for one")
	}
	if _, ok := l.Find("zlib1g", "riscv64"); ok {
		t.Error("found for an architecture that it is not for")
	}
}

func TestMissing(t *testing.T) {
	want := Package{
		Name:    "openssl",
		Arch:    "amd64",
		Version: "3.5.4-1~deb13u2",
		SHA256:  sum("a"),
	}

	for _, test := range []struct {
		name string
		have []Package
		want string
	}{
		{"the archive has it", []Package{want}, ""},
		{
			"among others",
			[]Package{{"openssl", "amd64", "3.5.4-1~deb13u3", sum("b")}, want},
			"",
		},
		{
			"an update has replaced it",
			[]Package{{"openssl", "amd64", "3.5.4-1~deb13u3", sum("b")}},
			"openssl amd64 3.5.4-1~deb13u2: the archive has 3.5.4-1~deb13u3",
		},
		{"gone", nil, "openssl amd64 3.5.4-1~deb13u2: not in the archive"},
		{
			"the same version, but not the same file",
			[]Package{{"openssl", "amd64", "3.5.4-1~deb13u2", sum("b")}},
			"openssl amd64 3.5.4-1~deb13u2: SHA-256 " + sum("a") + ", the archive's is " +
				sum("b") + ": not the same package",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			problems := Missing([]Package{want}, func(string, string) []Package {
				return test.have
			})
			if got := (errors.Join(problems...)); (got == nil) != (test.want == "") ||
				(got != nil && got.Error() != test.want) {
				t.Errorf("%v, want %s", got, test.want)
			}
		})
	}
}

func TestMissingErrorSaysWhatToDo(t *testing.T) {
	var problems []error
	for range 7 {
		problems = append(problems, errors.New("openssl is gone"))
	}

	got := hint.Text(NewMissingError(problems))
	for _, want := range []string{
		"7 packages", "\n  openssl is gone", "\n  and 2 more", "--update-packages",
		"--mirror http://snapshot.debian.org/archive/debian/",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

func TestReadSaysHowToMakeOne(t *testing.T) {
	_, err := Read(filepath.Join(t.TempDir(), "packages.lock"))
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(hint.Text(err), "--update-packages") {
		t.Error(err)
	}
}

// TestLockOfTheTree reads the project's own.
func TestLockOfTheTree(t *testing.T) {
	f, err := Read("../../mkosi/packages.lock")
	if err != nil {
		t.Fatal(err)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		for _, name := range []string{"systemd", "libc6", "libssl3t64"} {
			if _, ok := f.Images.Find(name, arch); !ok {
				t.Errorf("no %s for %s", name, arch)
			}
		}
		if _, ok := f.Tools.Find("systemd-boot-efi", arch); !ok {
			t.Errorf("no boot loader for %s", arch)
		}
	}
}
