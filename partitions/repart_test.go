package partitions

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/test/judge"
)

// placed is what systemd-repart and Place must agree on.
type placed struct {
	File  string
	Start int64
	Size  int64
}

// TestRepart lets systemd-repart plan an empty disk of 8 GiB from our
// definitions, and compares its plan with ours.
func TestRepart(t *testing.T) {
	dir := t.TempDir()
	for _, d := range definitions(t) {
		text, err := files.ReadFile(d.File)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, d.File), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}

	disk := filepath.Join(t.TempDir(), "disk")
	if err := errors.Join(os.WriteFile(disk, nil, 0o600), os.Truncate(disk, 8*gib)); err != nil {
		t.Fatal(err)
	}

	// Not --empty=create: it turns --dry-run off.
	cmd := exec.Command(judge.Systemd(t, "systemd-repart"), "--empty=force", "--dry-run=yes",
		"--json=short", "--definitions="+dir, disk)
	var stderr strings.Builder
	cmd.Stderr = &stderr

	out, err := cmd.Output()
	if err != nil || strings.Contains(stderr.String(), "Unknown") {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, &stderr)
	}

	var rows []struct {
		File    string
		Offset  int64
		RawSize int64 `json:"raw_size"`
	}
	if err := json.Unmarshal(out, &rows); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	p := params()
	p.DiskSize = 8 * gib

	table, err := Place(definitions(t), p)
	if err != nil {
		t.Fatal(err)
	}

	var want, got []placed
	for i, d := range definitions(t) {
		want = append(want, placed{d.File, table.Partitions[i].Start, table.Partitions[i].Size})
		got = append(got, placed{filepath.Base(rows[i].File), rows[i].Offset, rows[i].RawSize})
	}

	state := len(want) - 1

	// repart ends at 4 KiB, Place at 1 MiB
	want[state].Size /= mib
	got[state].Size /= mib

	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-ours +repart's):\n%s\n%s", diff, out)
	}
}
