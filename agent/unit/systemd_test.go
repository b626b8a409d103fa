package unit_test

import (
	"errors"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/test/container"
)

// place writes text where a generation has its content, and a symbolic link to
// it where systemd looks.
func place(t *testing.T, dir *durable.Dir, name, text string) {
	t.Helper()
	content := path.Join("var/lib/loam/generations/1/root", name)
	for _, parent := range []string{path.Dir(content), path.Dir(name), "run/loam"} {
		if err := dir.MkdirAll(parent); err != nil {
			t.Fatal(err)
		}
	}

	if _, err := dir.WriteFile(content, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}

	link(t, dir, "run/loam/current", "/var/lib/loam/generations/1")
	link(t, dir, name, "/run/loam/current/root/"+name)
}

func link(t *testing.T, dir *durable.Dir, name, target string) {
	t.Helper()
	if err := dir.MkdirAll(path.Dir(name)); err != nil {
		t.Fatal(err)
	}
	if _, err := dir.Symlink(target, name); err != nil {
		t.Fatal(err)
	}
}

const sleeper = "[Service]\nExecStart=sleep infinity\n[Install]\nWantedBy=multi-user.target\n"

// TestSystemdTakesUnitsThatAreLinks checks what the layout of a generation
// relies on: units may be symbolic links through /run/loam/current.
func TestSystemdTakesUnitsThatAreLinks(t *testing.T) {
	container.Run(t, unitsThatAreLinks)
}

func unitsThatAreLinks(t *testing.T, c *container.Container) {
	s := c.Connect(t)
	dir := durable.New(c.OpenRoot(t), nil)
	const units = "etc/systemd/system/"
	place(t, dir, units+"linked.service", sleeper)
	place(t, dir, units+"linked.service.d/10-env.conf", "[Service]\nEnvironment=A=1\n")
	place(t, dir, units+"many@.service", sleeper)
	place(t, dir, units+"named.service", sleeper)
	link(t, dir, units+"multi-user.target.wants/linked.service", "/"+units+"linked.service")
	link(t, dir, units+"multi-user.target.wants/many@one.service", "/"+units+"many@.service")
	link(t, dir, units+"other.service", "/"+units+"named.service")
	link(t, dir, units+"masked.service", "/dev/null")
	link(t, dir, units+"sysinit.target.wants/systemd-tmpfiles-setup.service", "/dev/null")

	if err := s.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}

	for _, name := range []string{"linked.service", "many@one.service", "other.service"} {
		if err := s.Start(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}

	names := []string{
		"linked.service", "many@one.service", "other.service", "masked.service", "absent.service",
	}

	states, err := s.Show(t.Context(), names)
	if err != nil {
		t.Fatal(err)
	}

	type seen struct {
		Load, Active, File, Fragment string
		DropIns                      []string
		Reload                       bool
	}

	var got []seen
	for _, state := range states {
		got = append(got, seen{
			Load:     state.Load,
			Active:   state.Active,
			File:     property(t, c, state.Name, "UnitFileState"),
			Fragment: state.FragmentPath,
			DropIns:  state.DropInPaths,
			Reload:   needsReload(t, c, state.Name),
		})
	}

	want := []seen{
		{
			"loaded",
			"active",
			"enabled",
			"/etc/systemd/system/linked.service",
			[]string{"/etc/systemd/system/linked.service.d/10-env.conf"},
			false,
		},
		{"loaded", "active", "enabled", "/etc/systemd/system/many@.service", nil, false},
		{"loaded", "active", "linked", "/etc/systemd/system/named.service", nil, false},
		{"masked", "inactive", "masked", "/etc/systemd/system/masked.service", nil, false},
		{Load: "not-found", Active: "inactive"},
	}

	diff := cmp.Diff(want, got,
		cmp.Transformer("nil", func(s []string) string { return strings.Join(s, " ") }))
	if diff != "" {
		t.Errorf("units that are links (-want +got):\n%s", diff)
	}

	wants := c.Command(t, "systemctl", "show", "-P", "Wants", "multi-user.target", "sysinit.target")
	for _, name := range []string{"linked.service", "many@one.service"} {
		if !strings.Contains(wants, name) {
			t.Errorf("multi-user.target does not want %s: %s", name, wants)
		}
	}

	if strings.Contains(wants, "systemd-tmpfiles-setup.service") {
		t.Errorf("a link to /dev/null did not take the image's dependency away: %s", wants)
	}
}

func TestSystemdJobs(t *testing.T) { container.Run(t, jobs) }

func jobs(t *testing.T, c *container.Container) {
	s := c.Connect(t)
	dir := durable.New(c.OpenRoot(t), nil)
	const units = "etc/systemd/system/"
	place(t, dir, units+"linked.service", sleeper)
	place(t, dir, units+"fails.service", "[Service]\nType=oneshot\nExecStart=sh -c 'exit 3'\n")
	place(t, dir, units+"once.service", "[Service]\nType=oneshot\nExecStart=true\n")
	place(t, dir, units+"skipped.service", "[Unit]\nConditionPathExists=/absent\n"+sleeper)

	// A unit without references is unloaded when it is down.
	link(t, dir, units+"basic.target.wants/skipped.service", "/"+units+"skipped.service")
	if err := s.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}

	for _, name := range []string{"linked.service", "once.service", "skipped.service"} {
		if err := s.Start(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		if !show(t, s, name).Started() {
			t.Errorf("%s is not started after its start: %+v", name, show(t, s, name))
		}
	}

	var failure *unit.JobError
	if err := s.Start(t.Context(), "fails.service"); !errors.As(err, &failure) {
		t.Errorf("start of a unit that fails: %v", err)
	} else if failure.Result != "failed" || failure.State.ExitCode != 3 ||
		failure.State.Active != "failed" {
		t.Errorf("a unit that fails: %+v", failure)
	}

	before := show(t, s, "linked.service")
	flip(t, dir, units+"linked.service", sleeper+"# changed\n")

	if !needsReload(t, c, "linked.service") {
		t.Error("systemd does not notice that the flip changed a unit")
	}
	if err := s.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}

	after := show(t, s, "linked.service")
	if needsReload(t, c, "linked.service") || after.InvocationID != before.InvocationID {
		t.Errorf("after the reload: %+v", after)
	}

	if err := s.Restart(t.Context(), "linked.service"); err != nil {
		t.Fatal(err)
	}

	if after := show(t, s, "linked.service"); after.InvocationID == before.InvocationID ||
		!after.Running() {
		t.Errorf("after the restart: %+v", after)
	}

	if err := s.Stop(t.Context(), "linked.service"); err != nil {
		t.Fatal(err)
	}
	if after := show(t, s, "linked.service"); !after.Stopped() {
		t.Errorf("after the stop: %+v", after)
	}
}

func TestSystemdTellsChanges(t *testing.T) { container.Run(t, changes) }

func changes(t *testing.T, c *container.Container) {
	s := c.Connect(t)
	place(t, durable.New(c.OpenRoot(t), nil), "etc/systemd/system/linked.service", sleeper)
	if err := s.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}

	names, err := s.Changes(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	if err := s.Start(t.Context(), "linked.service"); err != nil {
		t.Fatal(err)
	}

	for name := range names { // ends with the test's time limit if it is never named
		if name == "linked.service" {
			return
		}
	}
}

func show(t *testing.T, s *unit.Systemd, name string) unit.State {
	t.Helper()
	states, err := s.Show(t.Context(), []string{name})
	if err != nil {
		t.Fatal(err)
	}
	return states[0]
}

// property returns a property of a unit by systemctl(1).
func property(t *testing.T, c *container.Container, unit, name string) string {
	t.Helper()
	return strings.TrimSpace(c.Command(t, "systemctl", "show", "-P", name, unit))
}

func needsReload(t *testing.T, c *container.Container, unit string) bool {
	t.Helper()
	return property(t, c, unit, "NeedDaemonReload") == "yes"
}

// flip makes a generation with another text of a unit the current one.
func flip(t *testing.T, dir *durable.Dir, name, text string) {
	t.Helper()
	content := path.Join("var/lib/loam/generations/2/root", name)
	if err := dir.MkdirAll(path.Dir(content)); err != nil {
		t.Fatal(err)
	}
	if _, err := dir.WriteFile(content, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	link(t, dir, "run/loam/current", "/var/lib/loam/generations/2")
}
