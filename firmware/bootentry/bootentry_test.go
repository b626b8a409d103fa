package bootentry

import (
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/test/judge"
)

func TestParseAndFormat(t *testing.T) {
	for _, tc := range []struct {
		file string
		want Name
	}{
		{
			"loam-node-os_0.1.0_x86-64.efi",
			Name{ImageID: "loam-node-os", Version: "0.1.0", Arch: "x86-64"},
		},
		{"loam-node-os_0.1.0_x86-64+3-0.efi", Name{
			ImageID:   "loam-node-os",
			Version:   "0.1.0",
			Arch:      "x86-64",
			TriesLeft: 3,
			Counted:   true,
		}},
		{"loam-node-os_0.1.0_arm64+0-3.efi", Name{
			ImageID:   "loam-node-os",
			Version:   "0.1.0",
			Arch:      "arm64",
			TriesDone: 3,
			Counted:   true,
		}},
		{"loam-node-os_12.34.56-rc.1_x86-64.efi", Name{}}, // 37: 41 with tries
	} {
		got, err := Parse(tc.file)
		if tc.want == (Name{}) {
			if err == nil {
				t.Errorf("%s: accepted", tc.file)
			}
			continue
		}

		if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", tc.file, err, diff)
		}
		if back, err := Format(got); err != nil || back != tc.file {
			t.Errorf("%s: formats as %s, %v", tc.file, back, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tc := range []struct {
		name, file, err string
	}{
		{"no version", "loam-node-os-version-0.1.0.efi", "want ImageID_Version_Arch.efi"},
		{"other architecture", "loam-node-os_0.1.0_riscv64.efi", "want ImageID_Version_Arch.efi"},
		{
			"tries of two digits",
			"loam-node-os_0.1.0_x86-64+10-0.efi",
			"want ImageID_Version_Arch.efi",
		},
		{"tries left only", "loam-node-os_0.1.0_x86-64+3.efi", "want ImageID_Version_Arch.efi"},
		{"another extension", "loam-node-os_0.1.0_x86-64.EFI", "want ImageID_Version_Arch.efi"},
		{"26 characters", "loam-node_0.1.0_x86-64.efi", "26 characters, want 27 to 35\nhint: "},
		{"36 characters", "loam-node-os_0.1.0-alpha1_x86-64.efi", "36 characters, want 27 to 35"},
		{"very long", strings.Repeat("x", 1000), "1000 characters, at most 39"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := Parse(tc.file); err == nil || !strings.Contains(hint.Text(err), tc.err) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
		})
	}
}

func TestFormatRefuses(t *testing.T) {
	good := Name{
		ImageID: "loam-node-os",
		Version: "0.1.0",
		Arch:    "x86-64",
		Counted: true,
	}

	for _, tc := range []struct {
		name   string
		change func(*Name)
		err    string
	}{
		{"upper case in the image ID", func(n *Name) {
			n.ImageID = "Loam-node-os"
		}, "image ID of a-z"},
		{"underscore in the version", func(n *Name) { n.Version = "0_1_0" }, "image ID of a-z"},
		{"plus in the version", func(n *Name) { n.Version = "0.1.0+b" }, "image ID of a-z"},
		{"Go's word for the architecture", func(n *Name) {
			n.Arch = "amd64"
		}, "architecture x86-64 or arm64"},
		{"ten tries", func(n *Name) { n.TriesLeft = 10 }, "want 0 to 9"},
		{"tries of a blessed entry", func(n *Name) {
			n.Counted = false
			n.TriesDone = 1
		}, "not counted"},
	} {
		n := good
		tc.change(&n)
		if _, err := Format(n); err == nil || !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: error %v, want %q", tc.name, err, tc.err)
		}
	}
}

func TestCompareSortsAsTheLoader(t *testing.T) {
	want := []string{
		"loam-node-os_0.10.0_x86-64.efi",
		"loam-node-os_0.9.0_x86-64+2-0.efi",
		"loam-node-os_0.9.0_x86-64+2-1.efi",
		"loam-node-os_0.9.0_x86-64+1-2.efi",
		"other-node-os_9.0.0_x86-64.efi",
		"loam-node-os_0.11.0_x86-64+0-3.efi", // bad: last, however new
		"loam-node-os_0.10.1_x86-64+0-3.efi",
	}

	blessed := Name{ImageID: "a", Version: "1"}
	counted := Name{
		ImageID:   "a",
		Version:   "1",
		Counted:   true,
		TriesLeft: 3,
	}
	if Compare(blessed, counted) != 0 || Compare(counted, blessed) != 0 {
		t.Error("one that is blessed and one with tries do not stay in the order of the directory")
	}

	var names []Name
	for _, file := range want {
		n, err := Parse(file)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, n)
	}

	slices.Reverse(names)
	slices.SortFunc(names, Compare)

	var got []string
	for _, n := range names {
		file, err := Format(n)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, file)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// versions ascend; those on one line rank the same.
var versions = [][]string{
	{"~1"}, {"", "%"}, {"A1"}, {"a1"}, {"a10"}, {"ab"}, {"0~"}, {"0", "00"}, {"0."}, {"0.0"},
	{"1~rc1"}, {"1~rc2"}, {"1", "01", "1%"}, {"1-1"}, {"1^1"}, {"1.A"}, {"1.a"}, {"1.0"}, {"1a"},
	{"9"}, {"10"}, {"123.a"}, {"123.b"}, {"123a"},
}

func TestCompareVersions(t *testing.T) {
	for i, as := range versions {
		for j, bs := range versions {
			for _, a := range as {
				for _, b := range bs {
					if got, want := CompareVersions(a, b), min(max(i-j, -1), 1); got != want {
						t.Errorf("CompareVersions(%q, %q) = %d, want %d", a, b, got, want)
					}
				}
			}
		}
	}
}

// TestSystemdAnalyze lets systemd compare neighbours. Together with
// TestCompareVersions this proves the order of all.
func TestSystemdAnalyze(t *testing.T) {
	analyze := judge.Systemd(t, "systemd-analyze")
	for i := 1; i < len(versions); i++ {
		a := versions[i-1][0]
		b := versions[i][0]
		out, err := exec.Command(analyze, "compare-versions", "--", a, b).CombinedOutput()
		var exit *exec.ExitError // 12: the first is older
		if !errors.As(err, &exit) || exit.ExitCode() != 12 {
			t.Errorf("systemd does not find %q older than %q: %v %s", a, b, err, out)
		}
	}
}

// FuzzParse: a name that parses formats to itself and equals itself in order.
func FuzzParse(f *testing.F) {
	f.Add("loam-node-os_0.1.0_x86-64+3-0.efi")
	f.Fuzz(func(t *testing.T, file string) {
		n, err := Parse(file)
		if err != nil {
			return
		}
		if back, err := Format(n); err != nil || back != file || Compare(n, n) != 0 {
			t.Errorf("%q formats as %q, %v", file, back, err)
		}
	})
}

// FuzzCompareVersions: the order is antisymmetric, and every comparison ends.
func FuzzCompareVersions(f *testing.F) {
	f.Add("1.0~rc1", "1.0-1")
	f.Fuzz(func(t *testing.T, a, b string) {
		if CompareVersions(a, b) != -CompareVersions(b, a) || CompareVersions(a, a) != 0 {
			t.Errorf("%q, %q: %d and %d", a, b, CompareVersions(a, b), CompareVersions(b, a))
		}
	})
}
