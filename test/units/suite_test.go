package units_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/loop"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/test/container"
	"github.com/loam-os/loam/test/units"
)

var (
	_ apply.Units = (*units.Fake)(nil)
	_ loop.Units  = (*units.Fake)(nil)
)

const (
	sleeper = "[Service]\nExecStart=sleep infinity\n"
	failer  = "[Service]\nType=oneshot\nExecStart=sh -c 'exit 3'\n"
	once    = "[Service]\nType=oneshot\nExecStart=true\n"
)

// judged is a systemd, real or not, and the root directory with its unit files.
type judged struct {
	*testing.T
	apply.Units
	root string
}

// suite is what tests rely on. Each statement has units of its own: one systemd
// is asked for all of them.
var suite = []struct {
	name  string
	shows func(s judged)
}{
	{"a unit without a file is not found", unknownUnit},
	{"a start brings a unit up, and another start does nothing", startTwice},
	{"a restart gives a unit another invocation ID", restart},
	{"a stop brings a unit down, and another stop does nothing", stop},
	{"the error of a unit that fails has its state", failingUnit},
	{"a unit that failed stays failed when it is stopped", stopOfFailed},
	{"ResetFailed makes systemd forget a failure", resetFailed},
	{"a oneshot that is done is inactive, or stays active", oneshot},
	{"a new text counts after a daemon-reload", newText},
	{"a unit without its file runs on until it is stopped", lostFile},
	{"a reload of a unit keeps its invocation ID", reload},
	{"units are shown in the order of their names", order},
}

func TestFake(t *testing.T) {
	for _, statement := range suite {
		t.Run(statement.name, func(t *testing.T) {
			root := t.TempDir()
			statement.shows(judged{t, &units.Fake{Texts: units.Files(root, t.TempDir())}, root})
		})
	}
}

func TestSystemd(t *testing.T) {
	container.Run(t, func(t *testing.T, c *container.Container) {
		systemd := c.Connect(t)
		for _, statement := range suite {
			t.Run(statement.name, func(t *testing.T) {
				statement.shows(judged{t, systemd, c.Root})
			})
		}
	})
}

// file writes the file of a unit, and has systemd read it.
func (s judged) file(name, text string) {
	s.Helper()
	s.write(name, text)
	s.daemonReload()
}

func (s judged) write(name, text string) {
	s.Helper()
	dir := filepath.Join(s.root, "etc/systemd/system")
	err := errors.Join(
		os.MkdirAll(dir, 0o755),
		os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644),
	)
	if err != nil {
		s.Fatal(err)
	}
}

func (s judged) daemonReload() {
	s.Helper()
	if err := s.Reload(s.Context()); err != nil {
		s.Fatal(err)
	}
}

// started starts a unit, and returns its state.
func (s judged) started(name string) unit.State {
	s.Helper()
	if err := s.Start(s.Context(), name); err != nil {
		s.Fatal(err)
	}
	return s.show(name)
}

func (s judged) show(name string) unit.State {
	s.Helper()
	states, err := s.Show(s.Context(), []string{name})
	if err != nil {
		s.Fatal(err)
	}
	return states[0]
}

// is fails the test unless a unit has that state.
func (s judged) is(name, state string) {
	s.Helper()
	if got := s.show(name); got.Active+"/"+got.Sub != state || got.Job {
		s.Errorf("%s is %+v, want %s", name, got, state)
	}
}

// refuses fails the test unless err is the error of a job that systemd does not
// begin, with that text.
func (s judged) refuses(err error, text string) {
	s.Helper()
	if err == nil || errors.As(err, new(*unit.JobError)) || !strings.Contains(err.Error(), text) {
		s.Errorf("error %v, want one with %q before a job", err, text)
	}
}

// fails fails the test unless err is the error of this job.
func (s judged) fails(err error, verb, name, result string) *unit.JobError {
	s.Helper()
	var failed *unit.JobError
	if !errors.As(err, &failed) {
		s.Fatalf("%s %s: error %v, want that of a job", verb, name, err)
	}
	if failed.Verb != verb || failed.Unit != name || failed.Result != result || failed.Err != nil {
		s.Errorf("%s %s: %+v, want the result %q", verb, name, failed, result)
	}
	return failed
}

func unknownUnit(s judged) {
	const name = "unknown.service"
	got := s.show(name)
	if got.Load != "not-found" || got.InvocationID != "" || got.Name != name || got.ID != name {
		s.Errorf("shown as %+v", got)
	}
	s.is(name, "inactive/dead")

	s.refuses(s.Start(s.Context(), name), "Unit unknown.service not found")
	s.refuses(s.Restart(s.Context(), name), "Unit unknown.service not found")
	s.refuses(s.ReloadUnit(s.Context(), name), "Unit unknown.service not found")
	s.refuses(s.Stop(s.Context(), name), "Unit unknown.service not loaded")
	s.ResetFailed(s.Context(), name)
	s.is(name, "inactive/dead")
}

func startTwice(s judged) {
	const name = "start.service"
	s.file(name, sleeper)
	if got := s.show(name); got.Load != "loaded" || got.InvocationID != "" || got.Started() {
		s.Errorf("before: %+v", got)
	}
	s.is(name, "inactive/dead")

	first := s.started(name)
	s.is(name, "active/running")
	if !first.Started() || len(first.InvocationID) != 32 || first.Type != "simple" ||
		first.Result != "success" {
		s.Errorf("after a start: %+v", first)
	}
	if second := s.started(name); second.InvocationID != first.InvocationID {
		s.Errorf("after another: %+v, before: %+v", second, first)
	}

	s.file("start-another.service", sleeper)
	if another := s.started("start-another.service"); another.InvocationID == first.InvocationID {
		s.Errorf("another unit: %+v", another)
	}
}

func restart(s judged) {
	const name = "restart.service"
	s.file(name, sleeper)
	last := ""
	for range 3 { // The first finds it down.
		if err := s.Restart(s.Context(), name); err != nil {
			s.Fatal(err)
		}
		s.is(name, "active/running")
		now := s.show(name).InvocationID
		if now == last {
			s.Errorf("the invocation ID is %s again", now)
		}
		last = now
	}
}

func stop(s judged) {
	const name = "stop.service"
	s.file(name, sleeper)
	first := s.started(name)
	for range 2 {
		if err := s.Stop(s.Context(), name); err != nil {
			s.Fatal(err)
		}
		s.is(name, "inactive/dead")
		if got := s.show(name); !got.Stopped() || got.Result != "success" {
			s.Errorf("after a stop: %+v", got)
		}
	}
	if second := s.started(name); second.InvocationID == first.InvocationID {
		s.Errorf("started again: %+v, before: %+v", second, first)
	}
}

func failingUnit(s judged) {
	const name = "failing.service"
	s.file(name, failer)
	for verb, ask := range map[string]func() error{
		"start":   func() error { return s.Start(s.Context(), name) },
		"restart": func() error { return s.Restart(s.Context(), name) },
	} {
		failed := s.fails(ask(), verb, name, "failed")
		got := failed.State
		if got.Result != "exit-code" || got.ExitCode != 3 || !got.Stopped() || got.Started() ||
			got.InvocationID == "" {
			s.Errorf("after the %s: %+v", verb, got)
		}
		if diff := cmp.Diff(got, s.show(name)); diff != "" {
			s.Errorf("the unit of the error, and as it is shown (-error +shown):\n%s", diff)
		}
		s.is(name, "failed/failed")
	}
}

func stopOfFailed(s judged) {
	const name = "failed.service"
	s.file(name, failer)
	s.fails(s.Start(s.Context(), name), "start", name, "failed")
	if err := s.Stop(s.Context(), name); err != nil {
		s.Error(err)
	}
	s.is(name, "failed/failed")
}

func resetFailed(s judged) {
	const name = "forgotten.service"
	s.file(name, failer)
	s.fails(s.Start(s.Context(), name), "start", name, "failed")
	s.ResetFailed(s.Context(), name)
	s.is(name, "inactive/dead")
	if got := s.show(name); got.Result != "success" {
		s.Errorf("it is %+v", got)
	}

	// What runs has not failed.
	s.file("runs.service", sleeper)
	before := s.started("runs.service")
	s.ResetFailed(s.Context(), "runs.service")
	if after := s.show("runs.service"); after.InvocationID != before.InvocationID {
		s.Errorf("a unit that runs is %+v", after)
	}
	s.is("runs.service", "active/running")
}

func oneshot(s judged) {
	s.file("once.service", once)
	if got := s.started("once.service"); !got.Started() || got.Type != "oneshot" {
		s.Errorf("a oneshot that is done: %+v", got)
	}
	s.is("once.service", "inactive/dead")

	s.file("stays.service", once+"RemainAfterExit=yes\n")
	first := s.started("stays.service")
	s.is("stays.service", "active/exited")
	if second := s.started("stays.service"); second.InvocationID != first.InvocationID {
		s.Errorf("started again, it is %+v, before: %+v", second, first)
	}
}

func newText(s judged) {
	const name = "text.service"
	s.file(name, sleeper)
	before := s.started(name)
	s.write(name, failer+"TimeoutStartSec=4min\n")
	if got := s.show(name); got.StartLimit != 90*time.Second || got.Type != "simple" {
		s.Errorf("before a daemon-reload: %+v", got)
	}

	s.daemonReload()
	got := s.show(name)
	if got.StartLimit != 4*time.Minute || got.Type != "oneshot" || !got.Running() ||
		got.InvocationID != before.InvocationID {
		s.Errorf("after it: %+v, before: %+v", got, before)
	}
	s.fails(s.Restart(s.Context(), name), "restart", name, "failed")
}

func lostFile(s judged) {
	const name = "lost.service"
	s.file(name, sleeper)
	before := s.started(name)
	if err := os.Remove(filepath.Join(s.root, "etc/systemd/system", name)); err != nil {
		s.Fatal(err)
	}
	s.daemonReload()

	s.refuses(s.Restart(s.Context(), name), "Unit lost.service not found")
	s.is(name, "active/running")
	if got := s.show(name); got.Load != "not-found" || got.InvocationID != before.InvocationID {
		s.Errorf("without its file: %+v, before: %+v", got, before)
	}
	if err := s.Stop(s.Context(), name); err != nil {
		s.Fatal(err)
	}
	s.is(name, "inactive/dead")
	s.refuses(s.Start(s.Context(), name), "Unit lost.service not found")
}

func reload(s judged) {
	const name = "reloads.service"
	s.file(name, sleeper+"ExecReload=true\n")
	s.fails(s.ReloadUnit(s.Context(), name), "reload", name, "invalid") // It is down.
	before := s.started(name)
	if err := s.ReloadUnit(s.Context(), name); err != nil {
		s.Fatal(err)
	}
	s.is(name, "active/running")
	if after := s.show(name); after.InvocationID != before.InvocationID {
		s.Errorf("after a reload: %+v, before: %+v", after, before)
	}

	s.file("no-reload.service", sleeper)
	s.started("no-reload.service")
	s.refuses(s.ReloadUnit(s.Context(), "no-reload.service"), "reload is not applicable")
}

func order(s judged) {
	s.file("b.service", sleeper)
	s.file("a.service", sleeper)
	names := []string{"b.service", "absent.service", "a.service"}
	states, err := s.Show(s.Context(), names)
	if err != nil {
		s.Fatal(err)
	}
	var got []string
	for _, state := range states {
		got = append(got, state.Name)
	}
	if diff := cmp.Diff(names, got); diff != "" {
		s.Errorf("order (-want +got):\n%s", diff)
	}

	if states, err := s.Show(s.Context(), nil); len(states) > 0 || err != nil {
		s.Errorf("for no names: %+v %v", states, err)
	}
}
