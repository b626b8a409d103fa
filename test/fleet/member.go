package fleet

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/loam-os/loam/agent/cluster"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/test/apiserver"
	"github.com/loam-os/loam/test/recorded"
	"github.com/loam-os/loam/test/units"
)

// armed is the phase of an upgrade that only waits for the restart.
const armed = "armed"

// system is a version of the operating system.
type system struct{ version, hash string }

// member is a machine of the fleet.
type member struct {
	fleet     *Fleet
	name, dir string
	config    cluster.Config
	transport apiserver.Transport
	systemd   *units.Fake

	mu sync.Mutex

	// runs is its system, state what its upgrades are at. changed is signalled
	// when state is another.
	runs    system
	state   status.Upgrade
	changed chan struct{}

	// armed is signalled when the machine is to restart with another system.
	armed chan struct{}

	// began is when the machine started, and asked how often that was asked, in
	// nanoseconds. stop ends its agent.
	began time.Time
	asked time.Duration
	stop  func()
}

func newMember(f *Fleet, name, dir string) *member {
	m := &member{
		fleet:   f,
		name:    name,
		dir:     dir,
		systemd: &units.Fake{},
		runs:    system{"1.0.0", "1a"},
		changed: make(chan struct{}, 1),
		armed:   make(chan struct{}, 1),
		began:   time.Now(),
	}
	m.transport.Server = f.counts.around(f.Server)
	m.systemd.Around = m.job
	return m
}

// job has a job of systemd take its time. A restart disturbs the node.
func (m *member) job(ctx context.Context, job units.Job, do func() error) error {
	if job.Verb != "restart" {
		return do()
	}

	m.fleet.checker.begin(m.name)
	defer m.fleet.checker.end(m.name)
	select {
	case <-time.After(m.fleet.Options.Restart):
	case <-ctx.Done():
		return ctx.Err()
	}
	if fails := m.fleet.Options.Fails; fails != nil && fails(m.name) {
		m.systemd.Set(job.Unit, unit.State{Active: "failed", Sub: "failed"})
		return &unit.JobError{Verb: job.Verb, Unit: job.Unit, Result: "failed"}
	}
	return do()
}

// uptime is the time since the machine started. No two calls return the same: the
// time of the bubble stands still while agents work, and a status is told from
// another by its time.
func (m *member) uptime() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked++
	return time.Since(m.began) + m.asked
}

// start starts the agent with what its disk has.
func (m *member) start() {
	f := m.fleet
	// One agent of thousands frees no memory: it would stop all for a collection.
	process := recorded.Process{Uptime: m.uptime, FreeMemory: func() {}}
	n, err := recorded.NewIn(process, m.dir, m.config, "", m.systemd, 0, logger())
	if err != nil {
		f.Error(err)
		return
	}
	m.mu.Lock()
	n.Agent.Status.RootHash = m.runs.hash
	n.Agent.Status.ImageVersion = m.runs.version
	m.mu.Unlock()
	n.Agent.Upgrades = m

	ctx, cancel := context.WithCancel(f.ctx)
	over := make(chan struct{})
	f.group.Go(func() {
		defer close(over)
		if err := errors.Join(n.Run(ctx), n.Close()); err != nil {
			f.Errorf("%s: %v", m.name, err)
		}
	})
	m.stop = func() {
		cancel()
		<-over
	}
	f.group.Go(func() { m.upgrade(ctx, n) })
}

// arm says that the machine is to restart with another system.
func (m *member) arm(next system) {
	m.set(status.Upgrade{Phase: armed, To: next.version, Target: next.hash})
	signal(m.armed)
}

func (m *member) set(state status.Upgrade) {
	m.mu.Lock()
	m.state = state
	m.mu.Unlock()
	signal(m.changed)
}

func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// upgrade restarts the machine once it is armed and its agent has a turn for that,
// unless ctx ends before: the agent does.
func (m *member) upgrade(ctx context.Context, n *recorded.Node) {
	for {
		state := m.State()
		if state.Phase != armed {
			select {
			case <-m.armed:
				continue
			case <-ctx.Done():
				return
			}
		}

		next := system{version: state.To, hash: state.Target}
		if n.Cluster.AwaitTurn(next.version, next.hash) == "" {
			m.fleet.group.Go(func() { m.reboot(next) })
			return
		}
		select {
		case <-n.Cluster.TurnChanged():
		case <-ctx.Done():
			return
		}
	}
}

// reboot starts the machine with another system, which is proven as soon as the
// agent runs.
func (m *member) reboot(next system) {
	f := m.fleet
	f.checker.begin(m.name)
	f.Ready(m.name, false)
	m.stop()

	select {
	case <-time.After(f.Options.Reboot):
	case <-f.ctx.Done():
		return
	}
	m.mu.Lock()
	m.runs = next
	m.began = time.Now()
	m.mu.Unlock()
	m.set(status.Upgrade{Phase: "trial", To: next.version, Target: next.hash})
	m.start()
	f.Ready(m.name, true)
	m.set(status.Upgrade{})
	f.checker.end(m.name)
}

// State implements loop.Watched.
func (m *member) State() *status.Upgrade {
	m.mu.Lock()
	defer m.mu.Unlock()
	state := m.state
	return &state
}

// Changed implements loop.Watched.
func (m *member) Changed() <-chan struct{} { return m.changed }

// runsSystem reports whether the machine runs the system and has proven it.
func (m *member) runsSystem(hash string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.runs.hash == hash && m.state.Phase == ""
}
