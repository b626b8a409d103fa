package plan

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/loam-os/loam/test/judge"
)

// TestUnitsThatTheImageDoesNotEnable holds the notes on files against the image: it has
// the units, and no target wants them.
func TestUnitsThatTheImageDoesNotEnable(t *testing.T) {
	dir := filepath.Join(judge.Dir(t, "LOAM_ROOT_TREE"), "usr/lib/systemd/system")
	for _, i := range idle {
		if _, err := os.Lstat(filepath.Join(dir, i.unit)); err != nil {
			t.Errorf("%s: %v", i.place, err)
		}
		wanted, err := filepath.Glob(filepath.Join(dir, "*.wants", i.unit))
		if err != nil || len(wanted) > 0 {
			t.Errorf("%s is enabled: %q, %v", i.unit, wanted, err)
		}
	}
	for _, place := range bootDirs {
		wanted, err := filepath.Glob(filepath.Join(dir, "*.wants", place.unit))
		if err != nil || len(wanted) == 0 {
			t.Errorf("%s is not enabled: %v", place.unit, err)
		}
	}
}

func TestFilesThatNothingReadsYet(t *testing.T) {
	for file, want := range map[string]string{
		"/etc/logrotate.d/x":   ", read by logrotate.timer, which the image does not enable",
		"/etc/nftables.conf":   ", read by nftables.service, which the image does not enable",
		"/etc/binfmt.d/x.conf": ", read by systemd-binfmt.service, which the image does not enable",
		"/etc/sysctl.d/x.conf": ", read at boot by systemd-sysctl.service",
		"/etc/app.conf":        "",
	} {
		if got := readLater(file); got != want {
			t.Errorf("%s: %q, want %q", file, got, want)
		}
	}
}
