package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/console"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/hostname/nodename"
	"github.com/loam-os/loam/agent/identity"
	"github.com/loam-os/loam/agent/loop"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/volume/manager"
	"github.com/loam-os/loam/hint/fault"
)

func TestEnded(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	killed := End{Result: "signal", Code: "killed", Status: "ABRT"}

	for _, tt := range []struct {
		name string
		ends []End
		// stops says that systemd has been told to stop it.
		stops bool
		// after is when each is, from the first.
		after []time.Duration
		want  []string
	}{
		{
			name:  "it was told to",
			ends:  []End{{Result: "success", Code: "exited", Status: "0"}},
			after: []time.Duration{0},
		},
		{name: "nothing says that it has", ends: []End{{}}, after: []time.Duration{0}},
		{
			name:  "it did not stop in time at a shutdown",
			ends:  []End{{Result: "timeout", Code: "killed", Status: "KILL"}},
			stops: true,
			after: []time.Duration{0},
		},
		{
			name:  "it was not ready in time",
			ends:  []End{{Result: "timeout", Code: "killed", Status: "TERM"}},
			after: []time.Duration{0},
			want:  []string{"it was not ready or did not stop in time, and was killed"},
		},
		{
			name:  "a signal",
			ends:  []End{killed},
			after: []time.Duration{0},
			want:  []string{"signal ABRT"},
		},
		{
			name:  "an exit status",
			ends:  []End{{Result: "exit-code", Code: "exited", Status: "2"}},
			after: []time.Duration{0},
			want:  []string{"exit status 2"},
		},
		{
			name:  "its watchdog",
			ends:  []End{{Result: "watchdog", Code: "dumped", Status: "ABRT"}},
			after: []time.Duration{0},
			want:  []string{"it hung, and was killed by its watchdog"},
		},
		{
			name:  "again and again",
			ends:  []End{killed, killed, killed},
			after: []time.Duration{0, time.Second, 2 * time.Minute},
			want:  []string{"signal ABRT", "signal ABRT"},
		},
		{
			name:  "the clock was set back",
			ends:  []End{killed, killed},
			after: []time.Duration{0, -time.Hour},
			want:  []string{"signal ABRT", "signal ABRT"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := newNodeRoot(t)
			before := status.Status{
				Hostname: "node-1",
				Phase:    status.Waiting,
				Cluster: &status.Cluster{
					Server:  "https://api:6443",
					Problem: "api:6443 does not answer",
					Code:    fault.ServerUnreachable,
				},
			}
			if err := status.Write(durable.New(root, nil), before); err != nil {
				t.Fatal(err)
			}

			serial := filepath.Join(root.Name(), "ttyS0")
			active := filepath.Join(root.Name(), "active")
			for name, text := range map[string]string{active: "ttyS0\n", serial: ""} {
				if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}

			stops := func() bool { return tt.stops }
			var text []byte
			for i, e := range tt.ends {
				consoles, err := console.Open(root.Name(), active)
				if err != nil {
					t.Fatal(err)
				}
				if err := Ended(root.Name(), e, stops, consoles, noon.Add(tt.after[i])); err != nil {
					t.Fatal(err)
				}

				said, err := os.ReadFile(serial)
				if err != nil {
					t.Fatal(err)
				}
				text = append(text, said...)
				if err := os.Truncate(serial, 0); err != nil {
					t.Fatal(err)
				}
			}

			var ends, reasons int
			for line := range strings.Lines(string(text)) {
				if rest, is := strings.CutPrefix(line, "loam node-1: agent-ended: the node agent has ended: "); is {
					if ends >= len(tt.want) || !strings.HasPrefix(rest, tt.want[ends]+"; ") {
						t.Errorf("line %q", line)
					}
					ends++
				}
				if strings.HasPrefix(line, "loam node-1: server-unreachable: api:6443 does not answer") {
					reasons++
				}
			}
			if ends != len(tt.want) || reasons != len(tt.want) {
				t.Errorf("%d lines of an end, %d of why it has not joined, want %d:\n%s",
					ends, reasons, len(tt.want), text)
			}
		})
	}
}

// An agent that starts again by itself ends with status 0, so that no console calls
// that a crash.
func TestRestarts(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{fmt.Errorf("%w from a to b", nodename.ErrChanged), true},
		{fmt.Errorf("%w: 2, not 1", identity.ErrDrives), true},
		{loop.ErrReset, true},
		{loop.ErrFollows, true},
		{manager.ErrAvailable, true},
		{os.ErrNotExist, false},
		{nil, false},
	} {
		if got := Restarts(tt.err); got != tt.want {
			t.Errorf("%v: %t", tt.err, got)
		}
	}
}

func TestEndedWithoutAStatus(t *testing.T) {
	root := newNodeRoot(t)
	active := filepath.Join(root.Name(), "active")
	for _, name := range []string{active, filepath.Join(root.Name(), "ttyS0")} {
		if err := os.WriteFile(name, []byte("ttyS0"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	consoles, err := console.Open(root.Name(), active)
	if err != nil {
		t.Fatal(err)
	}

	end := End{Result: "exit-code", Code: "exited", Status: "1"}
	err = Ended(root.Name(), end, func() bool { return false }, consoles, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root.Name(), "ttyS0"))
	if err != nil || !strings.Contains(string(text), "loam: agent-ended: ") {
		t.Errorf("%q, %v", text, err)
	}
}

// newNodeRoot returns the root directory of a node that has booted.
func newNodeRoot(t *testing.T) *os.Root {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "run/loam"), 0o700); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}
