package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/storage"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/test/files"
)

func TestStatusOfThisNodeHasTheUptimeOfNow(t *testing.T) {
	file := filepath.Join(t.TempDir(), "status.json")
	if err := os.WriteFile(file, []byte(`{"phase": "applied", "uptime": "12s"}`), 0o600); err != nil {
		t.Fatal(err)
	}

	for _, tt := range []struct {
		name   string
		uptime func() time.Duration
		want   string
	}{
		{"this node", func() time.Duration { return time.Minute }, "uptime       60.0 s"},
		{"another node", nil, "uptime       12.0 s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			p := statusPrinter{
				out:    &out,
				file:   file,
				format: "table",
				size:   noTerminal,
				uptime: tt.uptime,
			}
			if err := p.print(); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out.String(), tt.want) {
				t.Errorf("no %q in\n%s", tt.want, &out)
			}
		})
	}
}

func noTerminal() (columns, rows int) { return 80, 0 }

// output has what one goroutine prints, for another to take.
type output chan string

func (o output) Write(p []byte) (int, error) {
	o <- string(p)
	return len(p), nil
}

// take returns what was printed since the last call.
func (o output) take() string {
	var all strings.Builder
	for {
		select {
		case text := <-o:
			all.WriteString(text)
		default:
			return all.String()
		}
	}
}

// watched returns what --watch prints, and has printed after each of some steps.
func watched(t *testing.T, p statusPrinter, steps ...func(file string)) []string {
	t.Helper()
	var printed []string
	synctest.Test(t, func(t *testing.T) {
		out := make(output, 1<<10)
		p.out = out
		p.file = filepath.Join(t.TempDir(), "status.json")
		start := time.Now()
		p.uptime = func() time.Duration { return time.Minute + time.Since(start) }
		steps[0](p.file)

		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- p.watch(ctx) }()
		for _, step := range append(steps[1:], func(string) {}) {
			time.Sleep(3 * pollInterval / 2)
			synctest.Wait()
			printed = append(printed, out.take())
			step(p.file)
		}

		cancel()
		if err := <-ended; err != nil {
			t.Errorf("interrupted: %v", err)
		}
	})
	return printed
}

// has returns a step that writes a status.
func has(s status.Status) func(file string) {
	return func(file string) {
		text, err := json.Marshal(s)
		if err == nil {
			err = os.WriteFile(file, text, 0o600)
		}
		if err != nil {
			panic(err)
		}
	}
}

func remove(file string) { _ = os.Remove(file) }

func TestWatchPrintsWhatChanges(t *testing.T) {
	before := status.Status{Phase: status.Applying, Awaited: &status.Awaited{
		Unit:     "a.service",
		State:    "activating/start",
		Deadline: status.Duration(3 * time.Minute),
	}}
	later := before
	later.AgentRSS = 1 << 20
	after := status.Status{Phase: status.Applied, AppliedAt: status.Duration(time.Minute)}
	got := watched(t, statusPrinter{format: "table", size: noTerminal},
		has(before), has(later), remove, has(after))

	if !strings.HasPrefix(got[0], "--- loam -") || !strings.Contains(got[0], "a.service") {
		t.Errorf("at first\n%s", got[0])
	}
	if got[1] != "" || got[2] != "" {
		t.Errorf("nothing has changed, printed %q and %q", got[1], got[2])
	}
	const want = "  health       well: the node is as its configuration wants it\n" +
		"  phase        applied after 60.0 s\n"
	if strings.TrimPrefix(got[3], "\n") != want {
		t.Errorf("printed\n%s, want\n%s", got[3], want)
	}
}

func TestWatchPrintsEachStatusAsJSON(t *testing.T) {
	got := watched(t, statusPrinter{format: "json", size: noTerminal},
		has(status.Status{Phase: status.Applying}), has(status.Status{Phase: status.Applied}))
	for i, want := range []status.Phase{status.Applying, status.Applied} {
		s, err := status.Parse([]byte(got[i]))
		if err != nil || s.Phase != want {
			t.Errorf("%q, want %s", got[i], want)
		}
	}
}

func TestNoFormatShowsThePasswordOfTheRepository(t *testing.T) {
	root := files.Root(t)
	s := status.Status{Phase: status.Applied, Repository: "https://ada:s3cret@192.0.2.1/loam"}
	if err := status.Write(durable.New(root, nil), s); err != nil {
		t.Fatal(err)
	}
	info, err := root.Stat(status.Path[1:])
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}

	for _, format := range []string{"table", "json"} {
		var out strings.Builder
		p := statusPrinter{
			out:    &out,
			file:   root.Name() + status.Path,
			format: format,
			size:   noTerminal,
		}
		if err := p.print(); err != nil {
			t.Fatal(err)
		}
		if text := out.String(); strings.Contains(text, "s3cret") || !strings.Contains(text, "ada:xxxxx@") {
			t.Errorf("%s:\n%s", format, text)
		}
	}
}

func TestWatchDrawsOverTheTerminal(t *testing.T) {
	const rows = 30
	applying := has(status.Status{Phase: status.Applying, Awaited: &status.Awaited{
		Unit:     "a.service",
		State:    "activating/start",
		Deadline: status.Duration(3 * time.Minute),
	}})
	got := watched(t, statusPrinter{
		format: "table",
		size:   func() (int, int) { return 100, rows },
	}, applying, remove)

	pages := strings.Split(got[0], "\x1b[H")
	if len(pages) != 3 || pages[0] != "" {
		t.Fatalf("drawn %d times in less than a second: %q", len(pages)-1, got[0])
	}
	for i, left := range []string{"2m0s", "2m"} {
		page := pages[i+1]
		if !strings.Contains(page, "taken back in "+left) || strings.Count(page, "\n") >= rows ||
			!strings.HasSuffix(page, "\x1b[J") {
			t.Errorf("page %d: %q", i, page)
		}
	}
	if !strings.Contains(got[1], "a.service") || !strings.Contains(got[1], "no such file") {
		t.Errorf("while the agent is away: %q", got[1])
	}
}

// On a terminal that is too small for a page, drawing in place would lose the
// first rows.
func TestWatchDrawsOnlyWhereThePageFits(t *testing.T) {
	failed := has(status.Status{Phase: status.Failed, Error: &status.Error{
		Problem: "unit a.service failed",
		Hint:    "`loam logs a.service`",
	}})
	for _, tt := range []struct {
		columns, rows int
		draws         bool
	}{
		{columns: 1, rows: 1},
		{columns: 20, rows: 24},
		{columns: 30, rows: 24},
		{columns: 39, rows: 24},
		{columns: 40, rows: 24},
		{columns: 41, rows: 24, draws: true},
		{columns: 100, rows: 12, draws: true},
		{columns: 100, rows: 11},
	} {
		t.Run(fmt.Sprintf("%dx%d", tt.columns, tt.rows), func(t *testing.T) {
			size := func() (int, int) { return tt.columns, tt.rows }
			got := watched(t, statusPrinter{format: "table", size: size}, failed, remove)
			if strings.Contains(got[0], "\x1b") != tt.draws {
				t.Errorf("printed %q", got[0])
			}
			if !strings.Contains(got[0], "`loam logs a.service`") {
				t.Errorf("no hint in\n%s", got[0])
			}

			room := max(tt.columns, status.MinWidth)
			if tt.draws {
				room = tt.columns - 1
			}
			for line := range strings.Lines(got[0] + got[1]) {
				line = strings.TrimSuffix(strings.TrimPrefix(line, "\x1b[J"), "\n")
				line = strings.TrimSuffix(strings.TrimPrefix(line, "\x1b[H"), "\x1b[K\r")
				if len(line) > room {
					t.Errorf("%q", line)
				}
			}
		})
	}
}

// TestWatchEndsWellOnInterrupt runs the command itself, as it handles the signal.
func TestWatchEndsWellOnInterrupt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "status.json")
	has(status.Status{Phase: status.Applied})(file)

	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "status", "--watch", "--file", file)
	cmd.Args[0] = "loam" // TestMain takes that for the command.
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}

	// Once it prints, it watches.
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Error(err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	_, _ = io.Copy(io.Discard, out)
	if err := cmd.Wait(); err != nil {
		t.Errorf("interrupted: %v", err)
	}
}

// TestStatusOfAFullNode prints what an agent has written before its node ran
// out of room.
func TestStatusOfAFullNode(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "status.json")
	full := func() []storage.Usage {
		return []storage.Usage{{Path: "/run", Free: 0, Size: 100 << 20}}
	}
	var out bytes.Buffer
	p := statusPrinter{out: &out, file: file, format: "json", size: noTerminal, storage: full}

	err := p.print()
	if fault.Of(err) != fault.DiskFull || !strings.Contains(err.Error(), "/run is full") {
		t.Errorf("without a status: %v", err)
	}

	old := `{"phase": "applied", "health": "well", "reason": "all is well", "appliedAt": "3s"}`
	if err := os.WriteFile(file, []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.print(); err != nil {
		t.Fatal(err)
	}
	s, err := status.Parse(out.Bytes())
	if err != nil || s.Health != status.Degraded || s.Reason != "/run is full" ||
		len(s.Storage) != 1 {
		t.Errorf("%s, %v", out.String(), err)
	}
}

// TestStatusIsNotForEveryone has a status without a password: it still has what
// only those who look after the node are to read.
func TestStatusIsNotForEveryone(t *testing.T) {
	root := files.Root(t)
	if err := status.Write(durable.New(root, nil), status.Status{Phase: status.Applied}); err != nil {
		t.Fatal(err)
	}
	info, err := root.Stat(status.Path[1:])
	if err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}
