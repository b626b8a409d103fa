package console

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/printable"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/test/terminal"
)

// The lines are for whoever searches the log of a serial line for one node.
func TestShowPrintsALineForEachNewProblem(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"active": "ttyS0\n", "ttyS0": "", "hvc0": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p, err := Open(dir, filepath.Join(dir, "active"))
	if err != nil {
		t.Fatal(err)
	}

	away := status.Status{
		Hostname: "node-1",
		Cluster: &status.Cluster{
			Problem: "192.0.2.1:6443 does not answer",
			Tried:   "192.0.2.1:6443, from enp1s0 192.0.2.10/24",
			Code:    fault.ServerUnreachable,
		},
	}
	refused := away
	refused.Error = &status.Error{Document: "machine.yaml", Problem: "empty", Code: fault.DocumentInvalid}
	reached := status.Status{Hostname: "node-1"}
	// Another address of the same name was tried.
	otherAddress := away
	cluster := *away.Cluster
	cluster.Tried = "192.0.2.1:6443 at 192.0.2.2:6443, from enp1s0 192.0.2.10/24"
	otherAddress.Cluster = &cluster
	for _, s := range []status.Status{away, away, refused, otherAddress, away, reached, away} {
		p.Show(s, true)
	}

	const line = "loam node-1: server-unreachable: 192.0.2.1:6443 does not answer; " +
		"tried 192.0.2.1:6443, from enp1s0 192.0.2.10/24"
	want := []string{line, "loam node-1: document-invalid: machine.yaml: empty", line}
	for _, terminal := range []string{"ttyS0", "hvc0"} {
		text, err := os.ReadFile(filepath.Join(dir, terminal))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "loam ") {
				got = append(got, strings.TrimRight(line, "\r\n"))
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("lines of %s (-want +got):\n%s", terminal, diff)
		}
	}
}

// TestNamesOnAConsoleAreBounded has a status with codes for a terminal and with names
// of 1 MiB.
func TestNamesOnAConsoleAreBounded(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"active": "ttyS0\n", "ttyS0": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p, err := Open(dir, filepath.Join(dir, "active"))
	if err != nil {
		t.Fatal(err)
	}

	bad := "a\x1b[2J\u009b2J\x9b" + strings.Repeat("n", 1<<20)
	p.Show(status.Status{
		Hostname:   "node-1",
		Phase:      status.Failed,
		Generation: bad,
		AppliedAt:  status.Duration(time.Second),
		Error:      &status.Error{Problem: bad + " is bad", Code: fault.DocumentInvalid},
		Units:      []status.Unit{{Name: bad, Active: "failed", Sub: "failed"}},
	}, true)

	text, err := os.ReadFile(filepath.Join(dir, "ttyS0"))
	if err != nil {
		t.Fatal(err)
	}
	if !printable.IsText(text) || len(text) > 6000 {
		t.Errorf("%d bytes: %.6000q", len(text), text)
	}
	if !strings.Contains(string(text), "nnn is bad\r\n") {
		t.Errorf("nothing says what is wrong:\n%.6000s", text)
	}
}

func TestShowPrintsTheAppliedLineOncePerGeneration(t *testing.T) {
	applied := func(generation string) status.Status {
		return status.Status{Phase: status.Applied, Generation: generation, AppliedAt: status.Duration(time.Second)}
	}
	failed := status.Status{
		Phase:      status.Failed,
		Generation: "1",
		Error:      &status.Error{Problem: "unit a.service failed"},
	}
	appliedWithFailedUnit := failed
	appliedWithFailedUnit.AppliedAt = status.Duration(time.Second)

	for _, tt := range []struct {
		name, announced string
		shown           []status.Status
		want            int
	}{
		{name: "no generation is applied", shown: []status.Status{{Phase: status.Waiting}}},
		{
			name:  "one generation, shown twice",
			shown: []status.Status{applied("1"), applied("1")},
			want:  1,
		},
		{name: "two generations", shown: []status.Status{applied("1"), applied("2")}, want: 2},
		{
			name:      "an earlier run has announced it",
			announced: "1",
			shown:     []status.Status{applied("1")},
		},
		{
			name:      "an earlier run has announced another",
			announced: "1",
			shown:     []status.Status{applied("2")},
			want:      1,
		},
		{
			name:  "a unit has failed, before and after",
			shown: []status.Status{failed, appliedWithFailedUnit, appliedWithFailedUnit},
			want:  1,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range map[string]string{"active": "absent ttyS0\n", "ttyS0": ""} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			p, err := Open(dir, filepath.Join(dir, "active"))
			if err != nil {
				t.Fatal(err)
			}

			p.Announced(tt.announced)
			lines := map[string]bool{}
			for _, s := range tt.shown {
				p.Show(s, true)
				lines[s.AppliedLine()] = true
			}

			text, err := os.ReadFile(filepath.Join(dir, "ttyS0"))
			if err != nil {
				t.Fatal(err)
			}
			got := 0
			for line := range lines {
				got += strings.Count(string(text), line)
			}
			if got != tt.want {
				t.Errorf("%d applied lines, want %d, in\n%s", got, tt.want, text)
			}
			if strings.Count(string(text), "\n") != strings.Count(string(text), "\r\n") {
				t.Error("a line does not return the carriage")
			}
		})
	}
}

func TestOpenWithoutAListOfConsolesPrintsNowhere(t *testing.T) {
	p, err := Open(t.TempDir(), filepath.Join(t.TempDir(), "active"))
	if err == nil {
		t.Error("no error for a list that is absent")
	}
	p.Show(status.Status{}, true)
}

func TestShowDrawsOnScreensAndPrintsNews(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name   string
		news   bool
		shells []string
		screen bool
		serial bool
	}{
		{name: "nothing that an operator cares about", screen: true},
		{
			name:   "news",
			news:   true,
			screen: true,
			serial: true,
		},
		{name: "a shell on the serial line", shells: []string{"ttyS0"}, screen: true},
		{name: "a shell on the screen", shells: []string{"tty1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			files := map[string]string{
				"active": "tty0 ttyS0\n",
				"tty0":   "",
				"tty1":   "",
				"ttyS0":  "",
			}
			for name, text := range files {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			p, err := Open(dir, filepath.Join(dir, "active"))
			if err != nil {
				t.Fatal(err)
			}
			p.Now = func() time.Time { return noon }

			p.Show(status.Status{Phase: status.Waiting, DebugShells: tt.shells}, tt.news)
			screen := read(t, filepath.Join(dir, "tty1"))
			if drawn := strings.HasPrefix(screen, "\x1b[H--- loam -"); drawn != tt.screen {
				t.Errorf("screen %q", screen)
			}
			if tt.screen && (strings.Count(screen, "\x1b[K\r\n") != strings.Count(screen, "\n") ||
				!strings.HasSuffix(screen, "\x1b[J")) {
				t.Errorf("screen %q", screen)
			}
			serial := read(t, filepath.Join(dir, "ttyS0"))
			if printed := strings.HasPrefix(serial, "\r\n--- loam -"); printed != tt.serial {
				t.Errorf("serial line %q", serial)
			}
			if strings.Contains(serial, "\x1b") {
				t.Errorf("a sequence on the serial line: %q", serial)
			}
			if text := read(t, filepath.Join(dir, "tty0")); text != "" {
				t.Errorf("the terminal in front: %q", text)
			}
		})
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A page that is larger than its screen scrolls, and its first rows are lost.
func TestPageFitsTheScreen(t *testing.T) {
	for _, tt := range []struct {
		columns, rows         int
		wantColumns, wantRows int
	}{
		{columns: 0, rows: 0, wantColumns: 80, wantRows: 25},
		{columns: 80, rows: 25, wantColumns: 80, wantRows: 25},
		{columns: 64, rows: 24, wantColumns: 64, wantRows: 24},
		{columns: 40, rows: 15, wantColumns: 41, wantRows: 15},
		{columns: 39, rows: 10, wantColumns: 41, wantRows: 11},
		{columns: 30, rows: 25, wantColumns: 41, wantRows: 25},
		{columns: 20, rows: 3, wantColumns: 41, wantRows: 11},
	} {
		t.Run(fmt.Sprintf("%dx%d", tt.columns, tt.rows), func(t *testing.T) {
			c := console{terminal.Open(t, tt.columns, tt.rows).Program, "tty1", true}
			columns, rows := c.size()
			if columns != tt.wantColumns || rows != tt.wantRows {
				t.Errorf("%dx%d, want %dx%d", columns, rows, tt.wantColumns, tt.wantRows)
			}

			unit := status.Unit{Name: "a.service"}
			s := status.Status{Phase: status.Failed, Units: slices.Repeat([]status.Unit{unit}, 99)}
			page := c.page(s, time.Unix(0, 0))
			if lines := strings.Count(page, "\n"); lines >= rows {
				t.Errorf("%d lines on %d rows", lines, rows)
			}
			for line := range strings.Lines(page) {
				text := strings.TrimSuffix(strings.TrimPrefix(line, "\x1b[H"), "\x1b[K\r\n")
				if text != "\x1b[J" && len(text) >= columns {
					t.Errorf("%q in %d columns", text, columns)
				}
			}
		})
	}
}
