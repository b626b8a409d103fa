package fakesystemd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"
)

const (
	managerPath      = dbus.ObjectPath("/org/freedesktop/systemd1")
	managerInterface = "org.freedesktop.systemd1.Manager"
)

// imageUnits is how many units the manager has loaded besides the requested
// ones: as many as this project's container has at its start.
const imageUnits = 118

// Manager is process 1.
type Manager struct {
	// root is the root directory whose unit files count.
	root *os.Root
	// job is how long a job takes.
	job time.Duration

	mu          sync.Mutex
	connections map[*connection]bool
	units       map[string]*unit
	jobs        uint32
	calls       map[string]int
}

// New makes a Manager of the unit files in etc/systemd/system beneath root.
func New(root *os.Root, job time.Duration) *Manager {
	m := &Manager{
		root:        root,
		job:         job,
		connections: map[*connection]bool{},
		units:       map[string]*unit{},
		calls:       map[string]int{},
	}

	for i := range imageUnits {
		u := newUnit(fmt.Sprintf("image-%03d.service", i), "loaded")
		u.set("active", "running")
		m.units[u.name] = u
	}
	return m
}

// Calls is how often each method was called since the last time.
func (m *Manager) Calls() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	calls := m.calls
	m.calls = map[string]int{}
	return calls
}

// Serve answers those who connect to listener until ctx ends.
func (m *Manager) Serve(ctx context.Context, listener net.Listener) error {
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	for {
		stream, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) && ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("fake systemd: %w", err)
		}
		go m.serve(ctx, stream)
	}
}

// unit is one unit. Its state is what systemd calls active and sub.
type unit struct {
	name, load  string
	active, sub string
	invocation  []byte
	mainPID     uint32
	changed     time.Duration // since boot, when the state last did
	job         uint32        // 0 without one
	jobType     string
	jobOwner    *time.Timer
}

func newUnit(name, load string) *unit {
	return &unit{
		name:   name,
		load:   load,
		active: "inactive",
		sub:    "dead",
	}
}

// set changes the state. A unit that begins to run has a new invocation.
func (u *unit) set(active, sub string) {
	u.active = active
	u.sub = sub
	u.changed = uptime()
	if active == "active" {
		u.invocation = make([]byte, 16)
		_, _ = rand.Read(u.invocation) // never fails
		u.mainPID++
	} else {
		u.mainPID = 0
	}
}

func uptime() time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // never fails
	return time.Duration(now.Nano())
}

func (u *unit) path() dbus.ObjectPath { return unitPath(u.name) }

// unitPath is the object of a unit: bytes that a path may not have, and a digit
// at its beginning, are written _XX (sd_bus_path_encode(3)).
func unitPath(name string) dbus.ObjectPath {
	var escaped strings.Builder
	for i, c := range []byte(name) {
		letter := (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')
		if letter || (i > 0 && c >= '0' && c <= '9') {
			escaped.WriteByte(c)
		} else {
			fmt.Fprintf(&escaped, "_%02x", c)
		}
	}
	return managerPath + "/unit/" + dbus.ObjectPath(escaped.String())
}

func jobPath(id uint32) dbus.ObjectPath {
	if id == 0 {
		return "/"
	}
	return managerPath + dbus.ObjectPath(fmt.Sprint("/job/", id))
}

// loadState is what systemd says of a unit once it has looked for its file.
func (m *Manager) loadState(name string) string {
	target, err := m.root.Readlink(path.Join("etc/systemd/system", name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "not-found"
	case target == os.DevNull:
		return "masked"
	}
	return "loaded"
}

// load is the unit called name, loaded if it was not.
func (m *Manager) load(name string) *unit {
	if u := m.units[name]; u != nil {
		return u
	}

	u := newUnit(name, m.loadState(name))
	m.units[name] = u
	m.emit(managerPath, managerInterface+".UnitNew", u.name, u.path())
	return u
}

// byPath is the unit of an object path, loaded if it was not; nil if that is
// the path of no unit.
func (m *Manager) byPath(object dbus.ObjectPath) *unit {
	name, ok := unitName(object)
	if !ok {
		return nil
	}
	return m.load(name)
}

// unitName is the inverse of unitPath.
func unitName(object dbus.ObjectPath) (string, bool) {
	escaped, ok := strings.CutPrefix(string(object), string(managerPath)+"/unit/")
	var name strings.Builder
	for i := 0; ok && i < len(escaped); i++ {
		var c byte
		if escaped[i] != '_' {
			name.WriteByte(escaped[i])
			continue
		}

		if _, err := fmt.Sscanf(escaped[i:min(i+3, len(escaped))], "_%02x", &c); err != nil {
			return "", false
		}

		name.WriteByte(c)
		i += 2
	}

	return name.String(), ok
}

// reload reads all units again.
func (m *Manager) reload() {
	m.emit(managerPath, managerInterface+".Reloading", true)
	for _, u := range m.units {
		m.emit(managerPath, managerInterface+".UnitRemoved", u.name, u.path())
	}

	for name, u := range m.units {
		if strings.HasPrefix(name, "image-") {
			continue
		}
		u.load = m.loadState(name)
	}

	for _, u := range m.units {
		m.emit(managerPath, managerInterface+".UnitNew", u.name, u.path())
	}

	m.emit(managerPath, managerInterface+".Reloading", false)
}

// enqueue makes a job of kind "start", "stop", "restart" or "reload", as mode
// "replace" does: one of another kind for the unit is canceled.
func (m *Manager) enqueue(kind, name string) (dbus.ObjectPath, error) {
	u := m.load(name)
	switch {
	case u.load == "not-found" && kind == "stop":
		return "", failure("NoSuchUnit", "Unit %s not loaded.", name)
	case u.load == "not-found":
		return "", failure("NoSuchUnit", "Unit %s not found.", name)
	case u.load == "masked" && kind != "stop":
		return "", failure("UnitMasked", "Unit %s is masked.", name)
	case u.job != 0 && u.jobType == kind:
		return jobPath(u.job), nil
	case u.job != 0:
		u.jobOwner.Stop()
		m.removeJob(u, "canceled")
	}

	if kind == "restart" && u.active != "active" {
		kind = "start"
	}

	m.jobs++
	u.job = m.jobs
	u.jobType = kind
	m.changed(u)
	m.emit(managerPath, managerInterface+".JobNew", u.job, jobPath(u.job), u.name)

	if (kind == "start") == (u.active == "active") { // There is nothing to do.
		id := jobPath(u.job)
		m.removeJob(u, "done")
		return id, nil
	}

	m.changed(u)
	if kind == "restart" || kind == "stop" {
		u.set("deactivating", "stop-sigterm")
		m.changed(u)
		m.jobChanged(u, "running")
	}

	u.jobOwner = time.AfterFunc(m.job, func() { m.finish(u, u.job) })
	return jobPath(u.job), nil
}

// collect forgets the units that are down and have no file, as process 1 does
// when it has answered.
func (m *Manager) collect() {
	for name, u := range m.units {
		if u.load == "not-found" && u.active == "inactive" && u.job == 0 {
			delete(m.units, name)
			m.emit(managerPath, managerInterface+".UnitRemoved", u.name, u.path())
		}
	}
}

// finish ends the job of u, which has taken its time.
func (m *Manager) finish(u *unit, job uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()

	if u.job != job {
		return // Another has replaced it.
	}

	if u.jobType != "reload" && u.jobType != "start" {
		u.set("inactive", "dead")
		m.changed(u)
	}

	if u.jobType == "restart" {
		m.jobChanged(u, "waiting")
		m.changed(u)
	}

	if u.jobType == "restart" || u.jobType == "start" {
		u.set("active", "running")
		m.changed(u)
	}

	m.removeJob(u, "done")
	m.changed(u)
}

func (m *Manager) removeJob(u *unit, result string) {
	m.emit(managerPath, managerInterface+".JobRemoved", u.job, jobPath(u.job), u.name, result)
	u.job = 0
	m.changed(u)
}

func (m *Manager) jobChanged(u *unit, state string) {
	m.emit(jobPath(u.job), propertiesInterface+".PropertiesChanged", "org.freedesktop.systemd1.Job",
		map[string]dbus.Variant{"State": dbus.MakeVariant(state)}, []string{})
}

// status is an entry of ListUnits and ListUnitsByNames.
type status struct {
	Name, Description, Load, Active, Sub, Following string
	Path                                            dbus.ObjectPath
	JobID                                           uint32
	JobType                                         string
	JobPath                                         dbus.ObjectPath
}

func (u *unit) status() status {
	s := status{
		Name:        u.name,
		Description: u.name,
		Load:        u.load,
		Active:      u.active,
		Sub:         u.sub,
		Path:        u.path(),
		JobID:       u.job,
		JobPath:     jobPath(u.job),
	}

	if u.job != 0 {
		s.JobType = u.jobType
	}
	return s
}

// list is every unit, or those called names.
func (m *Manager) list(names []string) []status {
	all := []status{}
	for _, name := range names {
		all = append(all, m.load(name).status())
	}
	return all
}

func (m *Manager) names() []string {
	var names []string
	for name := range m.units {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
