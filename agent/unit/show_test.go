package unit_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/test/container"
	"github.com/loam-os/loam/test/fakesystemd"
)

// fake is a fake systemd with units, all of them up, and a connection to it.
func fake(t *testing.T, count int) (*fakesystemd.Manager, *unit.Systemd, []string) {
	t.Helper()
	dir := t.TempDir()
	units := filepath.Join(dir, "etc/systemd/system")
	if err := os.MkdirAll(units, 0o755); err != nil {
		t.Fatal(err)
	}

	var names []string
	for i := range count {
		name := fmt.Sprintf("unit-%02d.service", i)
		if err := os.WriteFile(filepath.Join(units, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}

	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	socket := filepath.Join(dir, "private")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}

	manager := fakesystemd.New(root, 0)
	served := make(chan error, 1)
	go func() { served <- manager.Serve(t.Context(), listener) }()

	s, err := unit.Connect(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})

	for _, name := range names {
		if err := s.Start(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}

	return manager, s, names
}

func showAll(t *testing.T, s *unit.Systemd, names []string) []unit.State {
	t.Helper()
	states, err := s.Show(t.Context(), names)
	if err != nil {
		t.Fatal(err)
	}
	return states
}

func TestUnitsThatDidNotChangeAreNotAskedForAgain(t *testing.T) {
	manager, s, names := fake(t, 50)
	before := showAll(t, s, names)
	manager.Calls()
	if again := showAll(t, s, names); !slices.EqualFunc(before, again, same) {
		t.Errorf("shown again: %+v, before: %+v", again, before)
	}

	if calls := manager.Calls(); calls["GetAll"] != 0 || calls["ListUnitsByNames"] != 1 {
		t.Errorf("to see that nothing changed: %v", calls)
	}

	if err := s.Restart(t.Context(), names[7]); err != nil {
		t.Fatal(err)
	}

	showAll(t, s, names) // Signals after the end of the job may still come.
	manager.Calls()
	after := showAll(t, s, names)

	if calls := manager.Calls(); calls["GetAll"] > 1 {
		t.Errorf("to see that one unit changed: %v", calls)
	}

	for i := range names {
		if restarted := after[i].InvocationID != before[i].InvocationID; restarted != (i == 7) {
			t.Errorf("%s restarted: %v", names[i], restarted)
		}
	}
}

func same(a, b unit.State) bool {
	return a.Name == b.Name && a.InvocationID == b.InvocationID && a.Active == b.Active
}

// TestMessagesAreReadInLargePieces counts read(2): godbus does one for every
// number and text that it takes from a stream.
func TestMessagesAreReadInLargePieces(t *testing.T) {
	_, s, names := fake(t, 50)
	before := reads(t)
	showAll(t, s, names)
	if n := reads(t) - before; n > 500 {
		t.Errorf("%d reads to look at %d units", n, len(names))
	}
}

// reads returns how often this process has called read(2) (proc_pid_io(5),
// syscr).
func reads(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Fatal(err)
	}

	_, rest, _ := strings.Cut(string(text), "syscr: ")
	value, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.Atoi(value)
	if err != nil {
		t.Fatal(err)
	}

	return n
}

func TestShownStatesAreNeverOld(t *testing.T) { container.Run(t, neverOld) }

// neverOld changes units behind the connection's back after they were shown.
func neverOld(t *testing.T, c *container.Container) {
	s := c.Connect(t)
	dir := durable.New(c.OpenRoot(t), nil)
	const units = "etc/systemd/system/"
	place(t, dir, units+"a.service", sleeper)
	link(t, dir, units+"multi-user.target.wants/a.service", "/"+units+"a.service")

	if err := s.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context(), "a.service"); err != nil {
		t.Fatal(err)
	}

	before := show(t, s, "a.service")
	systemctl := func(args ...string) {
		t.Helper()
		if out := c.Command(t, append([]string{"systemctl"}, args...)...); out != "" {
			t.Fatalf("systemctl %v: %s", args, out)
		}
	}

	systemctl("restart", "a.service")
	if now := show(t, s, "a.service"); !now.Running() || now.InvocationID == before.InvocationID {
		t.Errorf("after a restart: %+v, before: %+v", now, before)
	}

	place(t, dir, units+"b.service", "[Unit]\nRequires=a.service\n"+sleeper)
	systemctl("start", "b.service") // Without a reload: it is not loaded yet.

	if now := show(t, s, "a.service"); !slices.Equal(now.BoundBy, []string{"b.service"}) {
		t.Errorf("after the start of what requires it, bound by %q", now.BoundBy)
	}

	place(t, dir, units+"a.service.d/10-type.conf", "[Service]\nType=exec\nTimeoutStartSec=4min\n")
	systemctl("daemon-reload")

	if now := show(t, s, "a.service"); now.Type != "exec" || len(now.DropInPaths) != 1 ||
		before.StartLimit != 90*time.Second || now.StartLimit != 4*time.Minute {
		t.Errorf("after a reload: %+v, before: %+v", now, before)
	}

	place(t, dir, units+"a.service.d/10-type.conf", "[Service]\nTimeoutStartSec=infinity\n")
	systemctl("daemon-reload")
	if now := show(t, s, "a.service"); now.StartLimit != 0 {
		t.Errorf("without a limit: %+v", now)
	}

	systemctl("kill", "--signal=KILL", "a.service")
	for state := show(t, s, "a.service"); state.Active != "failed"; state = show(t,
		s, "a.service") {
		if !state.Running() && state.Active != "deactivating" {
			t.Fatalf("after it was killed: %+v", state)
		}
	}

	if now := show(t, s, "a.service"); now.Result != "signal" || now.ExitCode != 9 {
		t.Errorf("after it was killed: %+v", now)
	}

	systemctl("reset-failed", "a.service")
	if now := show(t, s, "a.service"); now.Active != "inactive" {
		t.Errorf("after it was forgotten that it failed: %+v", now)
	}
}
