// Package agent is the node's life under systemd: one goroutine that owns the
// node, reads its configuration, has it applied and says how it stands. What
// else happens, a source or a unit that changes, a managed path that something
// touched, what a person asks for, is sent to that goroutine.
package agent

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
}

// Cluster is who the node belongs to; see cluster.Cluster.
type Cluster interface {
	Report(s status.Status)
	// Link is how the node stands with the cluster, Linked tells when that changes.
	Link() status.Cluster
	Linked() <-chan struct{}
	// Event tells people there what happened to the node.
	Event(warning bool, reason, message string)
	// WatchRestarts is how often something was watched anew.
	WatchRestarts() int
}

// Agent is the loop. All fields are set before Run and not changed after.
type Agent struct {
	Engine Engine
	Units  Units
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
	// Now is the time since kernel start.
	Now func() time.Duration
	Log *zap.Logger
}

// settle is how long the loop waits for further changes before it looks: a unit
// that starts changes several times.
const settle = 100 * time.Millisecond

// retry is how long the loop waits before it tries again to complete what it
// could not, read again when it looks again for what a document refers to, reach
// again how often it tries to reach what does not answer.
const (
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
	units, err := a.Units.Changes(ctx)
	if err != nil {
		return err
	}
	l := &loop{Agent: a, status: a.Status, asked: a.Status.Error, done: make(chan func(), 1), others: &others, touched: map[string]bool{}}
	changed := l.watch(ctx)
	shells := l.openShells(ctx, &others)
	var drift <-chan []string
	if a.Drift != nil {
		drift = a.Drift.Events()
	}
	contents := a.Contents
	var linked <-chan struct{}
	if a.Cluster != nil {
		linked = a.Cluster.Linked()
	}
	if err := a.Ready(); err != nil {
		return err
	}
	l.due.resume, l.due.read = true, true
	for {
		l.next(ctx)
		select {
		case <-ctx.Done():
			return nil
		case then := <-l.done:
			l.busy = false
			then()
		case wish := <-l.wishes():
			l.grant(ctx, wish)
		case _, ok := <-changed:
			if !ok {
				changed = nil
				continue
			}
			l.rereads()
		case _, ok := <-contents:
			if !ok {
				contents = nil
				continue
			}
			l.readAt.soon(settle)
		case name, ok := <-units:
			if !ok {
				return errUnless(ctx, ErrDisconnected)
			}
			if l.concerns(name) {
				l.lookAt.soon(settle)
			}
		case paths, ok := <-drift:
			if !ok {
				drift = nil
				l.warn("watch managed paths", errors.New("no more events"))
				continue
			}
			l.touch(paths)
		case q := <-a.Queries:
			q <- l.sample()
		case <-linked:
			l.show(ctx)
		case s := <-shells:
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
		case <-l.repairAt.c:
			l.repairAt.clear()
			l.touch(generation.Paths(l.current))
		case <-l.lookAt.c:
			l.lookAt.clear()
			l.look(ctx)
		}
	}
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

// errUnless is err, nil if ctx has ended.
func errUnless(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
