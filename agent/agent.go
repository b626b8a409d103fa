// Package agent is the node's life under systemd: one goroutine that owns the
// node, reads its configuration, has it applied and says how it stands. What
// else happens, a source or a unit that changes, is sent to that goroutine.
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
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/unit"
)

// Engine applies configurations; see apply.Executor.
type Engine interface {
	Resume(ctx context.Context) (apply.Resumed, error)
	Current() (generation.Manifest, bool, error)
	Apply(ctx context.Context, d config.Desired, source string) (generation.Manifest, error)
}

// Units is what the loop itself asks of systemd; see unit.Systemd.
type Units interface {
	Start(ctx context.Context, name string) error
	Show(ctx context.Context, names []string) ([]unit.State, error)
	Changes(ctx context.Context) (<-chan string, error)
}

// Agent is the loop. All fields are set before Run and not changed after.
type Agent struct {
	Engine Engine
	Units  Units
	// Source is where the configuration comes from; nil if nowhere.
	Source source.Source
	// Decode makes of a document what it asks of this node.
	Decode func(source.Document) (config.Desired, error)
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

// settle is how long the loop waits for further changes before it looks: an
// editor writes several times, a unit that starts changes several times.
const settle = 100 * time.Millisecond

// retry is how long the loop waits before it tries again to complete what it
// could not.
const retry = 30 * time.Second

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
	l := &loop{Agent: a, status: a.Status, asked: a.Status.Error}
	changed := l.watch(ctx)
	shells := l.openShells(ctx, &others)
	if err := a.Ready(); err != nil {
		return err
	}
	l.resume(ctx)
	l.follow(ctx)
	var readAt, lookAt <-chan time.Time
	retryAt := l.retryAt()
	for {
		select {
		case <-ctx.Done():
			return nil
		case _, ok := <-changed:
			if !ok {
				changed = nil
				continue
			}
			readAt = after(readAt)
		case name, ok := <-units:
			if !ok {
				return errUnless(ctx, ErrDisconnected)
			}
			if l.concerns(name) {
				lookAt = after(lookAt)
			}
		case s := <-shells:
			l.shellOpened(s)
		case <-readAt:
			readAt = nil
			l.read(ctx)
			retryAt = l.retryAt()
		case <-retryAt:
			l.read(ctx)
			retryAt = l.retryAt()
		case <-lookAt:
			lookAt = nil
			l.look(ctx)
		}
	}
}

// after starts the time to settle, if it is not running yet.
func after(running <-chan time.Time) <-chan time.Time {
	if running != nil {
		return running
	}
	return time.After(settle)
}

// errUnless is err, nil if ctx has ended.
func errUnless(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
