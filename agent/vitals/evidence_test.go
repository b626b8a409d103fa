package vitals

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/printable"
	"github.com/loam-os/loam/agent/upgrade"
)

func TestEvidenceIsOfTheBootsThatFailed(t *testing.T) {
	const armed, missed, failed = "1-boot", "2-boot", "3-boot"
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	j := upgrade.Journal{Began: began, FromBoots: []string{armed, missed}}

	for _, tt := range []struct {
		name string
		log  bootLog
		want []string
	}{
		{
			"the journal of the boot that failed",
			bootLog{boot: failed, text: "a\nb\n"},
			[]string{"a", "b"},
		},
		{"the journal of the boot that armed it", bootLog{boot: armed, text: "old\n"}, nil},
		{"another boot of the old release", bootLog{boot: missed, text: "old\n"}, nil},
		{"no journal", bootLog{}, nil},
		{"a panic", bootLog{at: began.Add(time.Minute), text: "panic\n"}, []string{"panic"}},
		{"a panic before the upgrade", bootLog{at: began.Add(-time.Minute), text: "old\n"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, evidence([]bootLog{tt.log}, j)); diff != "" {
				t.Errorf("evidence (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTheJournalBeforeIsCut has a boot log an entry of 8 MB, with codes for a
// terminal.
func TestTheJournalBeforeIsCut(t *testing.T) {
	dir := t.TempDir()
	const script = `#!/bin/sh
case "$*" in
*--output=json*) echo '{"_BOOT_ID":"0123456789abcdef0123456789abcdef"}' ;;
*) printf 'at noon a[1]: \033[2J'; head -c 8000000 /dev/zero | tr '\0' x; echo; echo after ;;
esac
`
	if err := os.WriteFile(filepath.Join(dir, "journalctl"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))

	log := journalBefore(t.Context())
	if log.boot != "01234567-89ab-cdef-0123-456789abcdef" || len(log.text) > 2*printable.Most {
		t.Errorf("boot %s, %d bytes", log.boot, len(log.text))
	}
	const begin = "at noon a[1]: [2J"
	want := []string{begin + strings.Repeat("x", 200-len(begin)) + " ...", "after"}
	if diff := cmp.Diff(want, evidence([]bootLog{log}, upgrade.Journal{})); diff != "" {
		t.Errorf("evidence (-want +got):\n%s", diff)
	}
}

func TestKernelIDHasHyphens(t *testing.T) {
	got := kernelID("0123456789abcdef0123456789abcdef")
	if want := "01234567-89ab-cdef-0123-456789abcdef"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
