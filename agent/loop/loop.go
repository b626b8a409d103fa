package loop

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/unit"
)

// Engine applies configurations; see apply.Executor.
type Engine interface {
	Resume(ctx context.Context) (apply.Resumed, error)
	Current() (generation.Manifest, bool, error)
	Apply(ctx context.Context, r apply.Request) (generation.Manifest, error)
	Pending() (apply.Pending, bool, error)
	Judge(ctx context.Context) (health.Verdict, error)
	Settle(ctx context.Context, v health.Verdict) (generation.Manifest, error)
	Owed() ([]string, error)
	Retry(ctx context.Context) ([]string, error)
	Confirm() (generation.Manifest, error)
	Rollback(ctx context.Context, name string) (generation.Manifest, error)
	Held(digest string) (apply.Held, bool, error)
	Hold(h apply.Held) error
	Release(digest string) error
	Repair(ctx context.Context, paths []string, content map[string]config.Content) ([]string, error)
	Tidy() error
	Verify(ctx context.Context, content map[string]config.Content, repair bool) (apply.Verified, error)
}

// Units is what the loop itself asks of systemd; see unit.Systemd.
type Units interface {
	Start(ctx context.Context, name string) error
	Restart(ctx context.Context, name string) error
	Show(ctx context.Context, names []string) ([]unit.State, error)
	Changes(ctx context.Context) (<-chan string, error)
}

// Drift tells of managed paths that something touched; see drift.Watcher.
type Drift interface {
	Set(root string, paths []string) error
	Events() <-chan []string
	// Err returns why not all of them are watched, which may pass; nil if they are.
	Err() error
}

// Cluster is who the node belongs to; see cluster.Cluster.
type Cluster interface {
	Report(s status.Status)
	// Link is how the node stands with the cluster, Linked tells when that changes.
	Link() status.Cluster
	Linked() <-chan struct{}
	// Prepare is called before a configuration is applied; the zero configuration
	// says that this one is not applied after all.
	Prepare(ctx context.Context, d config.Desired)
	// Event tells people there what happened to the node.
	Event(warning bool, reason, message string)
	// WatchRestarts is how often something was watched anew.
	WatchRestarts() int
}

// Watched is a part of the status that something else observes.
type Watched[T any] interface {
	State() *T
	// Changed tells that State may be another.
	Changed() <-chan struct{}
}

// Resetter makes the node one that was never configured; see reset.Reset.
type Resetter interface {
	// Status is nil if the node is in no reset.
	Status() *status.Reset
	// Begin records a reset, Run carries it out, and Forget ends it.
	Begin() error
	Run(ctx context.Context) error
	Forget() error
	// Superseded reports whether a new machine.yaml has ended the reset.
	Superseded() bool
}

// Agent is the loop. All fields are set before Run and not changed after.
type Agent struct {
	Engine Engine
	Units  Units
	// Jobs are what the Engine has asked of systemd; nil for nothing to be told.
	Jobs *Jobs
	// Source is where the configuration comes from; nil if nowhere.
	Source source.Source
	// Decode makes of a document what it asks of this node.
	Decode func(ctx context.Context, doc source.Document) (config.Desired, error)
	// Reach reports whether what a probe names answers.
	Reach func(ctx context.Context, p config.Probe) error
	// Root is the root directory beneath which Drift watches; Drift may be nil.
	Root  string
	Drift Drift
	// Contents tells that something a document refers to has changed; nil if
	// nothing can.
	Contents <-chan []string
	// Cluster is told how the node stands; nil without one.
	Cluster Cluster
	// Volumes tell how the data volume is; nil where none is looked after.
	Volumes <-chan *status.Volume
	// Network tells how the node is reached; nil where nobody looks.
	Network Watched[status.Network]
	// Upgrades bring other systems; nil where none can be brought.
	Upgrades Watched[status.Upgrade]
	// Reset is the node's reset.
	Reset Resetter
	// End ends the agent, to be started again.
	End func(why error)
	// Asked are the wishes of people; nil for none.
	Asked <-chan Wish
	// Queries ask how the node stands; nil for none.
	Queries Queries
	// Proven is called, beside the loop, when a change has proven itself; nil for
	// nobody.
	Proven func(ctx context.Context)
	// DebugShells are terminals to open a root shell on.
	DebugShells []string
	// Status is what is known from the start: image, machine, and the error that
	// finding machine.yaml gave.
	Status status.Status
	// Publish shows a status; news says that its phase is another than before.
	Publish func(s status.Status, news bool)
	// Ready is called once the loop is up, before the first apply, which may
	// wait for units that are ordered after the agent.
	Ready func() error
	// Steady is how long a unit has to be well to count as well again, Limit how
	// long a boot without a change waits for units that are on their way.
	Steady, Limit time.Duration
	// Now is the time since kernel start.
	Now func() time.Duration
	Log *zap.Logger
}

const (
	// settle is how long the loop waits for further changes before it looks: a unit
	// that starts changes several times.
	settle = 100 * time.Millisecond
	// retry is when it tries again to complete what it could not, reachAgain to
	// reach what does not answer, readAgain when it looks again for what a document
	// refers to and is not there.
	retry      = 30 * time.Second
	reachAgain = 2 * time.Second
	readAgain  = 5 * time.Second
)

// ErrDisconnected means that systemd no longer tells the agent of its units;
// the agent ends, to be started again.
var ErrDisconnected = errors.New("connection to systemd lost")

// Run is the loop. It returns nil when ctx ends, after all it started has ended.
func (a *Agent) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var others sync.WaitGroup
	defer others.Wait()
	defer cancel()
	l := &loop{Agent: a, status: a.Status, asked: a.Status.Error, done: make(chan func(), 1), others: &others, touched: map[string]bool{}}
	n, err := l.listen(ctx)
	if err != nil {
		return err
	}
	if err := a.Ready(); err != nil {
		return err
	}
	l.due.resume, l.due.read = true, true
	for ctx.Err() == nil {
		l.next(ctx)
		if err := l.wait(ctx, n); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// news are the places from which the loop hears, nil for one that is silent.
type news struct {
	units           <-chan string
	source          <-chan struct{}
	contents, drift <-chan []string
	linked, brought <-chan struct{}
	reached         <-chan struct{}
	shells          <-chan shell
}

// listen begins before the first look, so that nothing is missed.
func (l *loop) listen(ctx context.Context) (*news, error) {
	units, err := l.Units.Changes(ctx)
	if err != nil {
		return nil, err
	}
	n := &news{units: units, source: l.watch(ctx), contents: l.Contents, shells: l.openShells(ctx)}
	if l.Drift != nil {
		n.drift = l.Drift.Events()
	}
	if l.Cluster != nil {
		n.linked = l.Cluster.Linked()
	}
	if l.Network != nil {
		n.reached = l.Network.Changed()
	}
	if l.Upgrades != nil {
		n.brought = l.Upgrades.Changed()
	}
	return n, nil
}

// wait takes in the next thing that happens.
func (l *loop) wait(ctx context.Context, n *news) error {
	select {
	case <-ctx.Done():
	case then := <-l.done:
		l.busy = false
		then()
	case wish := <-l.wishes():
		l.grant(ctx, wish)
	case _, ok := <-n.source:
		if !ok {
			n.source = nil
			if ctx.Err() != nil {
				break
			}
			l.warn("watch the source", errors.New("no more events"))
		}
		l.rereads()
	case _, ok := <-n.contents:
		if !ok {
			n.contents = nil
			break
		}
		l.readAt.soon(settle)
	case name, ok := <-n.units:
		if !ok {
			return ErrDisconnected
		}
		if l.concerns(name) {
			l.lookAt.soon(settle)
		}
	case paths, ok := <-n.drift:
		if !ok {
			n.drift = nil
			l.warn("watch managed paths", errors.New("no more events"))
			l.unguard()
			break
		}
		l.checkWatches()
		l.touch(paths)
	case q := <-l.Queries:
		q <- l.sample()
	case <-n.linked:
		l.show(ctx)
	case <-n.brought:
		l.show(ctx)
	case l.status.Volume = <-l.Volumes:
	case <-n.reached:
		l.show(ctx)
	case s := <-n.shells:
		l.shellOpened(s)
	case <-l.readAt.c:
		l.readAt.clear()
		l.rereads()
	case <-l.retryAt.c:
		l.retryAt.clear()
		l.due.resume, l.due.read = true, true
	case <-l.reachAt.c:
		l.reachAt.clear()
		l.due.reach = true
	case <-l.startAt.c:
		l.startAt.clear()
		l.due.start = true
	case <-l.repairAt.c:
		l.repairAt.clear()
		l.touch(generation.Paths(l.current))
	case <-l.restAt.c:
		l.restAt.clear()
		l.relax()
	case <-l.lookAt.c:
		l.lookAt.clear()
		l.look(ctx)
	}
	return nil
}

// alarm is a time at which the loop does something; the zero alarm never comes.
type alarm struct {
	c  <-chan time.Time
	at time.Time
}

// soon sets the alarm to d from now, unless it is set to come before.
func (a *alarm) soon(d time.Duration) {
	at := time.Now().Add(d)
	if a.c == nil || at.Before(a.at) {
		a.c, a.at = time.After(d), at
	}
}

func (a *alarm) clear() { a.c = nil }
