package status

import (
	"strings"
	"testing"
	"time"
)

func example() Status {
	return Status{
		Phase: Failed, ImageID: "loam-node-os", ImageVersion: "0.1.0", Slot: "a", RootHash: strings.Repeat("0123456789abcdef", 4),
		Kernel: "6.12.48", Hostname: "nuc-01", Generation: "000001-0123456789ab", Source: "/efi/loam/config.yaml", Files: 7,
		Error: &Error{Document: "config.yaml", Line: 12, Path: "spec.units[2].name", Problem: "empty", Hint: "give the unit a name\x1b[2J"},
		Units: []Unit{
			{Name: "containerd.service", Active: "active", Sub: "running", Settled: true, Since: 1500 * time.Millisecond},
			{Name: strings.Repeat("long", 20) + ".service", Active: "failed", Sub: "failed"},
		},
		DebugShells: []string{"ttyS1"}, Uptime: 12300 * time.Millisecond,
	}
}

func TestTableFitsItsWidth(t *testing.T) {
	for _, width := range []int{64, 80, 132} {
		for line := range strings.Lines(example().Table(width)) {
			if len(line) > width+1 || strings.ContainsFunc(strings.TrimSuffix(line, "\n"), func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Errorf("at width %d: %q", width, line)
			}
		}
	}
}

func TestTableSaysWhatMatters(t *testing.T) {
	got := example().Table(80)
	for _, want := range []string{
		"phase        failed\n", "config.yaml:12 spec.units[2].name: empty", "give the unit a name?[2J", "loam-node-os 0.1.0, slot a",
		strings.Repeat("0123456789abcdef", 4), "debug shell open on ttyS1", "containerd.service", "active/running", "at 1.5 s", "*failed/failed",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

func TestAppliedLine(t *testing.T) {
	s := Status{Generation: "000001-0123456789ab", AppliedAt: 12340 * time.Millisecond}
	if got, want := s.AppliedLine(), "loam: applied generation 000001-0123456789ab after 12.3 s"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
