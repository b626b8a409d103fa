package device

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	const text = "# comment\n\na-pack  a/*.bin  12  amd64\nb-pack b/x 3\na-pack a/y 1\n" +
		"without  a/*.old  for one reason\n"
	l, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}

	want := List{
		Entries: []Entry{
			{"a-pack", "a/*.bin", 12, "amd64"},
			{"b-pack", "b/x", 3, ""},
			{"a-pack", "a/y", 1, ""},
		},
		Without: []Without{{"a/*.old", "for one reason"}},
	}
	if diff := cmp.Diff(want, l); diff != "" {
		t.Error(diff)
	}

	if diff := cmp.Diff([]string{"a-pack", "b-pack"}, l.Packages()); diff != "" {
		t.Error(diff)
	}

	for file, want := range map[string]bool{
		"a/1.bin":     true,
		"a/1.old":     false,
		"a/sub/1.bin": false,
		"b/x":         true,
	} {
		if l.Has(file) != want {
			t.Errorf("has %s: %t", file, !want)
		}
	}

	if !l.LeavesOut("a/1.old") || l.LeavesOut("a/1.bin") {
		t.Error("a/1.old is left out, a/1.bin is not")
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"pack files\n":         `line 1: ["pack" "files"]: want PACKAGE FILES KIB [ARCH], or without FILES REASON`,
		"\nwithout files\n":    `line 2: ["without" "files"]: want PACKAGE FILES KIB [ARCH], or without FILES REASON`,
		"pack files many\n":    `line 1: ["pack" "files" "many"]: want PACKAGE FILES KIB [ARCH]`,
		"pack files 1 amd64 x": `line 1: ["pack" "files" "1" "amd64" "x"]: want PACKAGE FILES KIB [ARCH]`,
		"pack fi[les 1\n":      "line 1: fi[les: syntax error in pattern",
	} {
		if _, err := Parse(text); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestMetal(t *testing.T) {
	amd64, err := Metal("amd64")
	if err != nil {
		t.Fatal(err)
	}

	arm64, err := Metal("arm64")
	if err != nil {
		t.Fatal(err)
	}

	if !amd64.Has("intel-ucode/06-55-04") || arm64.Has("intel-ucode/06-55-04") ||
		!arm64.Has("rtl_nic/rtl8125b-2.fw") {
		t.Error("microcode is for its architecture, firmware for all")
	}
}
