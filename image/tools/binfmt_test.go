package tools

import (
	"debug/elf"
	"os"
	"runtime"
	"strings"
	"testing"
)

func TestBinfmtRule(t *testing.T) {
	want :=
		`:loam-arm64:M:0:\x7f\x45\x4c\x46\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00` +
			`:\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00\x00\xfe\xff\xff\xff:/t/qemu-aarch64:PF`
	if got := binfmtRule("arm64", "/t/qemu-aarch64"); got != want {
		t.Errorf("rule\n%s, want\n%s", got, want)
	}
}

func TestBinfmtRuns(t *testing.T) {
	// As the kernel shows what Debian's qemu-user-static registers.
	const debian = "enabled\ninterpreter /usr/libexec/qemu-binfmt/aarch64-binfmt-P\nflags: POCF\n" +
		"offset 0\n" +
		"magic 7f454c460201010000000000000000000200b700\n" +
		"mask ffffffffffffff00fffffffffffffffffeffffff\n"

	for _, tc := range []struct {
		name, old, new string
		want           bool
	}{
		{"Debian's own", "", "", true},
		{"switched off", "enabled", "disabled", false},
		{"not open, so of no use in a chroot", "POCF", "POC", false},
		{"another machine", "0200b700", "0200f300", false},
		{"another class", "7f454c4602", "7f454c4601", false},
		{"another offset", "offset 0", "offset 4", false},
		{"a mask that ignores the machine", "feffffff", "feff0000", true},
		{"no mask", "mask ffffffffffffff00fffffffffffffffffeffffff\n", "", true},
		{
			"by file name",
			"magic 7f454c460201010000000000000000000200b700\n" +
				"mask ffffffffffffff00fffffffffffffffffeffffff\n",
			"",
			false,
		},
		{"broken", "magic 7f45", "magic zz", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := parseBinfmt(strings.Replace(debian, tc.old, tc.new, 1)).runs("arm64")
			if got != tc.want {
				t.Errorf("runs arm64: %v, want %v", got, tc.want)
			}
		})
	}
}

// TestELFHeader compares the header with a real program's: this one.
func TestELFHeader(t *testing.T) {
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()

	header, mask := elfHeader(runtime.GOARCH)
	got := make([]byte, len(header))
	if _, err := f.ReadAt(got, 0); err != nil {
		t.Fatal(err)
	}

	for i := range header {
		if (got[i]^header[i])&mask[i] != 0 {
			t.Errorf("byte %d is %#x, want %#x under mask %#x", i, got[i], header[i], mask[i])
		}
	}

	if len(header) != elf.EI_NIDENT+4 {
		t.Errorf("header of %d bytes, want %d", len(header), elf.EI_NIDENT+4)
	}
}
