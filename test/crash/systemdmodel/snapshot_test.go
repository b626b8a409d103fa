package systemdmodel_test

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/test/container"
)

// unitTimeout is how long a test waits for what takes milliseconds.
const unitTimeout = 2 * time.Minute

// machine is a container with a systemd and a node in it.
type machine struct {
	node
	*container.Container
	systemd *unit.Systemd
	reloads *reloadCounter
}

// reloadCounter counts how often systemd is told to read its units.
type reloadCounter struct {
	apply.Units
	count int
}

func (r *reloadCounter) Reload(ctx context.Context) error {
	r.count++
	return r.Units.Reload(ctx)
}

// onMachine runs test in a container, without the agent of the image, and
// without systemd's limit of starts, which a quick walk runs into.
func onMachine(t *testing.T, test func(t *testing.T, m machine)) {
	container.Run(t, func(t *testing.T, c *container.Container) {
		image := c.OpenImage(t)
		systemd := c.Connect(t)

		counter := &reloadCounter{Units: systemd}
		m := machine{
			node:      newNode(c.OpenRoot(t), image, counter),
			Container: c,
			systemd:   systemd,
			reloads:   counter,
		}

		// No test reads what systemd tells about each reload: it would wait for
		// it.
		if out := m.Command(t, "umount", "/run/notify"); out != "" {
			t.Fatal(out)
		}

		m.put(
			t,
			"etc/systemd/system.conf.d/limit.conf",
			"[Manager]\nDefaultStartLimitBurst=100000\n",
		)
		if err := systemd.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := systemd.Stop(t.Context(), "loam-agent.service"); err != nil {
			t.Fatal(err)
		}

		test(t, m)
	})
}

// seen is what a test looks at of one unit that systemd has loaded.
type seen struct {
	invocation, active, fragment string
	dropIns                      []string
	stale                        bool // NeedDaemonReload
	reloads, runs                int64
}

func (s seen) up() bool { return s.active == "active" || s.active == "reloading" }

// snapshot is all of systemd: units by Id, and the Id of each name.
type snapshot struct {
	units map[string]seen
	ids   map[string]string
}

// id is the name that systemd itself uses for a unit.
func (s snapshot) id(name string) string {
	if id := s.ids[name]; id != "" {
		return id
	}
	return name
}

func (m machine) snapshot(t *testing.T) snapshot {
	t.Helper()
	s := snapshot{map[string]seen{}, map[string]string{}}

	// Only configured units: mounts and devices are the kernel's.
	out := m.Command(
		t,
		"systemctl",
		"show",
		"*.service",
		"*.socket",
		"*.timer",
		"*.path",
		"*.target",
		"*.slice",
		"--all",
		"-p",
		"Id,Names,InvocationID,ActiveState,NeedDaemonReload,FragmentPath,DropInPaths",
	)
	for block := range strings.SplitSeq(out, "\n\n") {
		p := map[string]string{}
		for line := range strings.Lines(block) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			p[key] = value
		}
		id := p["Id"]
		if id == "" {
			continue
		}
		u := seen{
			p["InvocationID"],
			p["ActiveState"],
			p["FragmentPath"],
			strings.Fields(p["DropInPaths"]),
			p["NeedDaemonReload"] == "yes",
			0,
			0,
		}
		s.units[id] = u
		for _, name := range strings.Fields(p["Names"]) {
			s.ids[name] = id
		}
	}

	for id := range scenarioUnits { // loaded or not: the files stay
		u := s.units[id]
		u.reloads, u.runs = m.size("run/pairs-"+id), m.size("run/pairs-ran-"+id)
		s.units[id] = u
	}

	if len(s.units) < 20 {
		t.Fatalf("systemctl show: %s", out)
	}

	return s
}

// size is how many bytes a file in /run has, 0 if it is not there.
func (m machine) size(name string) int64 {
	info, err := m.root.Stat(name)
	if err != nil {
		return 0
	}
	return info.Size()
}

// outcome is what became of a unit: started again ("new"), "stopped" or
// "reloaded".
type outcome map[string]string

// butSlices leaves out slices that come up: they come up with their units.
func (o outcome) butSlices(before snapshot) outcome {
	maps.DeleteFunc(o, func(id, what string) bool {
		return what == "new" && strings.HasSuffix(id, ".slice") && !before.units[id].up()
	})
	return o
}

// disturbs reports whether something that was up has stopped or was started again, and
// whether one ran that is or was a oneshot: it is never up, and may do anything.
func (o outcome) disturbs(before snapshot, have, want config.Desired) (stops, runs bool) {
	isOneshot := func(v *view) bool { return v != nil && strings.Contains(v.text, "Type=oneshot") }
	was, will := views(have), views(want)
	for id, what := range o {
		isNew := what == "new"
		stops = stops || what == "stopped" || (isNew && before.units[id].up())
		runs = runs || (isNew && (isOneshot(was[id]) || isOneshot(will[id])))
	}
	return stops, runs
}

// became compares two snapshots.
func became(before, after snapshot) outcome {
	o := outcome{}
	for id, a := range after.units {
		b := before.units[id]
		switch {
		case a.invocation != "" && a.invocation != b.invocation, a.runs != b.runs:
			o[id] = "new"
		case a.reloads != b.reloads:
			o[id] = "reloaded"
		}
	}

	for id, b := range before.units {
		if b.up() && !after.units[id].up() && o[id] == "" {
			o[id] = "stopped"
		}
	}
	return o.butSlices(before)
}

// judged judges the last change until there is a verdict, and has it carried
// out.
func (m machine) judged(t *testing.T, e *apply.Executor) health.Verdict {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), unitTimeout)
	defer cancel()

	changes, err := m.systemd.Changes(ctx)
	if err != nil {
		t.Fatal(err)
	}

	for {
		v, err := e.Judge(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if v.Word != health.Wait {
			if _, err := e.Conclude(t.Context(), v); err != nil {
				t.Fatal(err)
			}
			return v
		}
		if _, ok := <-changes; !ok {
			t.Errorf("no verdict: %+v", v)
			return v
		}
	}
}

// misread lists what systemd has not read as the configuration says.
func (s snapshot) misread(fragments map[string]string, dropIns map[string][]string) []string {
	var wrong []string
	for id, u := range s.units {
		if u.stale {
			wrong = append(wrong, id+" needs a daemon-reload")
		}
	}

	for id, file := range fragments {
		u := s.units[id]
		loaded := u.fragment != ""
		have := slices.DeleteFunc(
			slices.Clone(u.dropIns),
			func(p string) bool { return !strings.HasPrefix(p, "/etc/") },
		)
		slices.Sort(have)
		if loaded && ((file != "" && u.fragment != file) || !slices.Equal(have, dropIns[id])) {
			wrong = append(
				wrong,
				fmt.Sprintf("%s is read from %s %s, not %s %s",
					id, u.fragment, have, file, dropIns[id]),
			)
		}
	}

	slices.Sort(wrong)
	return wrong
}

// await waits until a unit has that ActiveState.
func (m machine) await(t *testing.T, name, active string) {
	t.Helper()
	m.until(t, name, func() bool { return m.show(t, name).Active == active })
}

// until waits for what comes with a change of a unit.
func (m machine) until(t *testing.T, name string, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), unitTimeout)
	defer cancel()
	changes, err := m.systemd.Changes(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for !is() {
		if _, ok := <-changes; !ok {
			t.Fatalf("it does not come to that: %+v", m.show(t, name))
		}
	}
}

// trigger makes c.timer, k.socket or p.path start its service, and waits until
// that is up, or done.
func (m machine) trigger(t *testing.T, stem string) {
	t.Helper()
	var err error
	switch stem {
	case "c": // As a timer does; its own time is days away.
		err = m.systemd.Start(t.Context(), "c.service")
	case "k":
		var conn net.Conn
		conn, err = net.Dial("unix", m.Root+"/run/pairs.sock")
		if err == nil {
			conn.Close()
		}
	case "p":
		m.put(t, "run/pairs-touched", "")
	}

	if err != nil {
		t.Fatal(err)
	}
	if stem != "c" {
		m.await(t, stem+".service", "active")
	}
}
