package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/loam-os/loam/agent/cluster"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/turns"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/test/apiserver"
	"github.com/loam-os/loam/test/files"
	"github.com/loam-os/loam/test/recorded"
	"github.com/loam-os/loam/test/units"
)

// armed is the phase of an upgrade that only waits for the restart.
const armed = "armed"

// kubelet is the unit whose start registers the Node.
const kubelet = "kubelet.service"

// system is a version of the operating system.
type system struct{ version, hash string }

// member is a machine of the fleet. It has power while its fleet runs; its agent
// may die and start again.
type member struct {
	fleet   *Fleet
	name    string
	config  cluster.Config
	systemd *units.Fake

	// network is its way to the server, nil without faults. part returns the random
	// numbers of the agent.
	network *network
	part    func() float64

	// power ends when the machine is off: what its systemd does ends then. off turns
	// it off.
	power context.Context
	off   func()

	// busy is held while the agent starts or dies, or the machine restarts. life is
	// the agent, nil while there is none, and ended when the last one died.
	busy  token
	life  *life
	ended time.Time

	clock clock

	mu sync.Mutex

	// dir is the disk.
	dir string

	// news has the name of a unit that has changed until the present agent receives it.
	news chan string

	// runs is its system, state what its upgrades are at. changed is signalled
	// when state is another.
	runs    system
	state   status.Upgrade
	changed chan struct{}

	// armed is signalled when the machine is to restart with another system.
	armed chan struct{}
}

// life is an agent from its start to its end.
type life struct {
	cancel func()
	over   chan struct{}
}

// newMember returns a machine without an agent. number tells it from all others.
func newMember(f *Fleet, name, dir string, number int, config cluster.Config) *member {
	m := &member{
		fleet:   f,
		name:    name,
		dir:     dir,
		config:  config,
		systemd: &units.Fake{},
		part:    rand.Float64,
		busy:    make(token, 1),
		runs:    system{"1.0.0", "1a"},
		changed: make(chan struct{}, 1),
		armed:   make(chan struct{}, 1),
		clock:   clock{began: time.Now()},
	}
	m.power, m.off = context.WithCancel(f.ctx)
	m.config.Transport = &apiserver.Transport{
		Server: f.counts.around(f.Server),
		Fault: func(*http.Request) apiserver.Fault {
			part := rand.Float64() * float64(f.Options.Delay)
			return apiserver.Fault{Delay: time.Duration(part)}
		},
	}
	if f.Options.Seed != 0 {
		m.network = newNetwork(f, rand.New(rand.NewPCG(f.Options.Seed, uint64(2*number))))
		m.config.Transport = m.network
		m.part = parts(rand.New(rand.NewPCG(f.Options.Seed, uint64(2*number+1))))
	}
	return m
}

// parts returns random numbers to several goroutines.
func parts(random *rand.Rand) func() float64 {
	var mu sync.Mutex
	return func() float64 {
		mu.Lock()
		defer mu.Unlock()
		return random.Float64()
	}
}

// hands is the systemd of a machine as one agent reaches it: not after its death.
type hands struct {
	*units.Fake
	member *member
	ctx    context.Context
	news   chan string
}

// Changes implements loop.Units.
func (h hands) Changes(context.Context) (<-chan string, error) { return h.news, nil }

// Reload implements apply.Units, as do the following methods.
func (h hands) Reload(ctx context.Context) error { return h.do(ctx, "", h.reload) }

func (h hands) reload(ctx context.Context, _ string) error { return h.Fake.Reload(ctx) }

func (h hands) Start(ctx context.Context, name string) error { return h.do(ctx, name, h.Fake.Start) }

func (h hands) Stop(ctx context.Context, name string) error { return h.do(ctx, name, h.Fake.Stop) }

func (h hands) ReloadUnit(ctx context.Context, name string) error {
	return h.do(ctx, name, h.Fake.ReloadUnit)
}

func (h hands) Restart(ctx context.Context, name string) error {
	return h.do(ctx, name, h.member.restart)
}

// do has systemd do something, unless the agent is dead.
func (h hands) do(ctx context.Context, name string, do func(context.Context, string) error) error {
	if h.ctx.Err() != nil {
		return h.ctx.Err()
	}
	return do(ctx, name)
}

// restart has a restart of a unit take its time. It disturbs the node, and goes on
// if the agent dies meanwhile.
func (m *member) restart(ctx context.Context, name string) error {
	end := m.disturb(m.fleet.checker.digest(m.text()))
	before, _ := m.systemd.Show(ctx, []string{name})
	if len(before) == 1 {
		m.systemd.Set(name, unit.State{
			Active:       "deactivating",
			Sub:          "stop-sigterm",
			InvocationID: before[0].InvocationID,
			Since:        m.clock.uptime(),
			Job:          true,
		})
		m.tell(name)
	}

	done := make(chan error, 1)
	power := m.power
	m.fleet.group.Go(func() {
		if !sleep(power, m.fleet.Options.Restart) {
			end()
			return
		}
		err := m.restarted(power, name)
		end() // The agent that hears of it may give its turn at once.
		done <- err
	})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// disturb says that the node is disturbed until end is called, for a change to target.
func (m *member) disturb(target string) (end func()) {
	m.fleet.checker.begin(m.name, target)
	return func() { m.fleet.checker.end(m.name) }
}

// restarted ends the restart of a unit.
func (m *member) restarted(power context.Context, name string) error {
	defer m.tell(name)
	if fails := m.fleet.Options.Fails; fails != nil && fails(m.name, m.text()) {
		m.systemd.Set(name, unit.State{Active: "failed", Sub: "failed"})
		return &unit.JobError{Verb: "restart", Unit: name, Result: "failed"}
	}
	if err := m.systemd.Restart(power, name); err != nil {
		return err
	}
	if name == kubelet {
		m.register()
	}
	return nil
}

// tell tells the agent that a unit has changed: one that has died may have begun its
// restart.
func (m *member) tell(name string) {
	m.mu.Lock()
	news := m.news
	m.mu.Unlock()
	select {
	case news <- name:
	default: // It has yet to look.
	}
}

// text returns what the configuration on the disk says, "" for none.
func (m *member) text() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	name, err := files.Follow(m.dir, "etc/a")
	if err != nil {
		return ""
	}
	text, _ := os.ReadFile(filepath.Join(m.dir, name))
	return string(text)
}

// says returns what the status of the agent says.
func (m *member) says() string {
	m.mu.Lock()
	text, err := os.ReadFile(filepath.Join(m.dir, status.Path))
	m.mu.Unlock()
	if err != nil {
		return err.Error()
	}
	s, err := status.Parse(text)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%s, %s: %s, units %+v", s.Health, s.Phase, s.Reason, s.Units)
}

// turn returns the turn on the disk.
func (m *member) turn() turns.Turn {
	m.mu.Lock()
	defer m.mu.Unlock()
	var t turns.Turn
	text, err := os.ReadFile(filepath.Join(m.dir, "var/lib/loam/turn.json"))
	if err == nil {
		err = json.Unmarshal(text, &t)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.fleet.Error(err)
	}
	return t
}

// register makes the Node Ready, as a kubelet does that starts. One that is gone is
// created again.
func (m *member) register() {
	f := m.fleet
	if !f.asks(http.MethodGet, nodesPath+"/"+m.name, "") {
		at := f.checker.places[m.name]
		f.asks(http.MethodPost, nodesPath, fmt.Sprintf(`{"metadata": {"name": %q, "labels": {
			"kubernetes.io/hostname": %[1]q, "topology.kubernetes.io/zone": %q, %q: %q%s}}}`,
			m.name, at.zone, rackLabel, at.rack, f.labels(m.name)))
	}
	m.ready(true)
}

// ready makes the Node Ready or not, if it is there.
func (m *member) ready(is bool) {
	value := "False"
	if is {
		value = "True"
	}
	m.fleet.asks(http.MethodPatch, nodesPath+"/"+m.name+"/status",
		fmt.Sprintf(`{"status": {"conditions": [{"type": "Ready", "status": %q}]}}`, value))
}

// start starts the agent with what its disk has. busy must be held.
func (m *member) start() {
	f := m.fleet
	ctx, cancel := context.WithCancel(f.ctx)
	l := &life{cancel: cancel, over: make(chan struct{})}
	process := recorded.Process{
		Now:        m.clock.now,
		Uptime:     m.clock.uptime,
		Part:       m.part,
		FreeMemory: func() {}, // One agent of thousands would stop all for a collection.
	}
	systemd := hands{Fake: m.systemd, member: m, ctx: ctx, news: make(chan string, 1)}
	n, err := recorded.NewIn(process, m.dir, m.config, "", systemd, 0, logger().Named(m.name))
	if err != nil {
		f.Error(err)
		cancel()
		return
	}
	m.mu.Lock()
	m.news = systemd.news
	n.Agent.Status.RootHash = m.runs.hash
	n.Agent.Status.ImageVersion = m.runs.version
	m.mu.Unlock()
	n.Agent.Upgrades = m

	m.life = l
	f.checker.started(m.name, m.ended)
	f.group.Go(func() {
		defer close(l.over)
		if err := errors.Join(n.Run(ctx), n.Close()); err != nil {
			f.Errorf("%s: %v", m.name, err)
		}
	})
	f.group.Go(func() { m.upgrade(ctx, l, n) })
}

// stop ends the agent. busy must be held.
func (m *member) stop() {
	m.life.cancel()
	<-m.life.over
	m.life = nil
	m.ended = time.Now()
}

// kill ends the agent as SIGKILL does: the next one starts with the disk as it is
// now. That is exact, because all goroutines wait for an answer, a job or a time
// when the caller runs: of two writes to the disk without any of these in between,
// both are done. A request that is on its way reaches the server, or does not. lock
// must be held.
func (m *member) kill() {
	before := m.dir
	after := m.copy()
	m.mu.Lock()
	m.dir = after
	m.mu.Unlock()
	m.stop()
	if err := os.RemoveAll(before); err != nil {
		m.fleet.Fatal(err)
	}
}

// copy copies the disk to a directory beside it, and returns that. busy must be held.
func (m *member) copy() string {
	dir, err := os.MkdirTemp(filepath.Dir(m.dir), m.name+"-")
	if err == nil {
		err = os.CopyFS(dir, os.DirFS(m.dir))
	}
	if err != nil {
		m.fleet.Fatal(err)
	}
	return dir
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
func (m *member) upgrade(ctx context.Context, l *life, n *recorded.Node) {
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
			m.fleet.group.Go(func() { m.reboot(l, next) })
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
// agent runs, unless the agent has died before.
func (m *member) reboot(l *life, next system) {
	f := m.fleet
	m.busy.lock()
	defer m.busy.unlock()
	if m.life != l || m.State().Phase != armed {
		return
	}
	end := m.disturb(turns.SystemTarget(next.hash))
	m.ready(false)
	m.stop()
	m.off()

	if !sleep(f.ctx, f.Options.Reboot) {
		end()
		return
	}
	m.power, m.off = context.WithCancel(f.ctx)
	if err := m.systemd.Boot(kubelet); err != nil {
		f.Error(err)
	}
	m.mu.Lock()
	m.runs = next
	m.mu.Unlock()
	m.clock.start()
	m.set(status.Upgrade{Phase: "trial", To: next.version, Target: next.hash})
	m.start()
	m.register()
	end() // The agent that hears that its system is proven may give its turn at once.
	m.set(status.Upgrade{})
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
