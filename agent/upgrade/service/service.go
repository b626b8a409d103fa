// Package service runs the upgrades of a node: it takes the steps of an
// [upgrade.Upgrader], waits between them, and answers requests.
//
//	Request --> runner.take --> Preflight, Begin
//	                |
//	              step --> Op, which has to wait
//	                |
//	             observe --> Standing --Decide--> Move --> restart, wait, ...
//
// # Where to look
//
//	when it waits, asks, restarts  decide.go
//	how that is carried out        runner.go
//	what a request leads to        requests.go; interrupt.go lets one be canceled
//	where a release is found       releases.go
//	what operators are told        report.go (status), listener.go (Events)
package service

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/upgrade"
	"github.com/loam-os/loam/agent/window"
)

// Service runs the node's upgrades: one goroutine continues what is under way,
// and handles requests.
type Service struct {
	Upgrader *upgrade.Upgrader
	Machine  Machine
	Releases Releases
	Policy   Policy

	// Hostname is the name of the node that a permit may be for.
	Hostname string

	// Turns says when the machine may restart with another system; nil for any
	// time.
	Turns Turns

	// Trial judges the system that runs, if it is on trial.
	Trial *upgrade.Trial
	Log   *zap.Logger

	asked   chan request
	changed chan struct{}
	mu      sync.Mutex
	state   status.Upgrade

	// steps are interrupted by requests to cancel.
	steps interrupter
}

// Machine is what the service does to the machine beside its disk.
type Machine interface {
	// Uptime returns the time since kernel start, on CLOCK_MONOTONIC.
	Uptime() time.Duration
	// Proven is called when the running system is no longer on trial.
	Proven()
	// Event tells the cluster what happened.
	Event(warning bool, reason, message string)
	// Reboot restarts the machine; it may return before that.
	Reboot(ctx context.Context) error
	// RestartDue tells the programs of others that a restart would bring the version,
	// which Loam leaves to them; "" for none.
	RestartDue(version string)
}

// Turns keeps machines from restarting with another system all at once.
type Turns interface {
	// Await returns why the machine may not restart with a system yet, "" if it
	// may. The zero System says that the machine is not to restart now.
	Await(s upgrade.System) (why string)

	// Changed is signalled when the answer may have changed.
	Changed() <-chan struct{}
}

// Newest is the [Policy.Version] of a machine that follows its repository.
const Newest = machine.Newest

// Policy is what machine.yaml says about upgrades.
type Policy struct {
	// Version is what the node should run: "" for any, [Newest] for each release once it
	// has reached the machine.
	Version string

	// Hold is why the node keeps its system, "" if it does not.
	Hold string

	// Mirrors are asked for chunks before the repository: directories and URLs
	// of copies of it, and of nodes that share what they run.
	Mirrors []string

	// Pace is the least time between the starts of two upgrades, unless an
	// operator is in a hurry.
	Pace time.Duration

	// Window is when the machine may restart with another system.
	Window window.Window
}

// Request is what an operator, the cluster or machine.yaml wants.
type Request struct {
	upgrade.Options

	// Version is "" for the newest.
	Version string

	// Permit is the text of the permit for a release that is older than the
	// running one, nil without. It decides about Options.Downgrade.
	Permit []byte

	// Plan only checks whether the request would be handled.
	Plan bool

	// Rollback is for the system in the other slot.
	Rollback bool

	// Drill is [upgrade.DrillCheck] or [upgrade.DrillPanic] for a drill, "" if none.
	Drill string

	// Cancel ends the upgrade under way before the machine restarts with it.
	Cancel bool
}

type request struct {
	Request
	answer chan<- answer
}

// answer is the version that is ready, or why it is not.
type answer struct {
	version string
	err     error
	// size is the size of the pack in a plan, in bytes.
	size int64
}

// Planned is what an upgrade would do.
type Planned struct {
	From, To string
	// Size is the most that would be fetched, in bytes; 0 if nothing would.
	Size int64
}

// New completes s, whose exported fields must be set. Run is its goroutine.
func New(s *Service) *Service {
	s.asked = make(chan request)
	s.changed = make(chan struct{}, 1)
	s.state = statusOf(s.Upgrader, upgrade.Op{}, nil)
	s.state.Held = s.Policy.Hold
	return s
}

// State returns how the upgrade stands.
func (s *Service) State() *status.Upgrade {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.state
	return &state
}

// Changed is signalled when State changes.
func (s *Service) Changed() <-chan struct{} { return s.changed }

func (s *Service) publish(edit func(u *status.Upgrade)) {
	s.mu.Lock()
	edit(&s.state)
	s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// Handle hands a request to Run. It returns the version when the machine is
// about to restart with it, or why it will not.
func (s *Service) Handle(ctx context.Context, r Request) (version string, err error) {
	a := s.ask(ctx, r)
	return a.version, a.err
}

// Foresee returns what the request would do, or why it would be refused.
func (s *Service) Foresee(ctx context.Context, r Request) (Planned, error) {
	r.Plan = true
	a := s.ask(ctx, r)
	return Planned{s.Upgrader.Boot.Running.Version, a.version, a.size}, a.err
}

func (s *Service) ask(ctx context.Context, r Request) answer {
	if r.Cancel {
		s.steps.interrupt()
	}

	got := make(chan answer, 1)
	select {
	case s.asked <- request{r, got}:
	case <-ctx.Done():
		if r.Cancel {
			s.steps.resume()
		}
		return answer{err: ctx.Err()}
	}
	select {
	case a := <-got:
		return a
	case <-ctx.Done():
		return answer{err: ctx.Err()}
	}
}

// Opens returns when an upgrade that is ready may restart the machine, the zero
// time for at once.
func (s *Service) Opens(w upgrade.Options) time.Time {
	return opens(s.Policy.Window, s.Upgrader.Now(), w.AtOnce)
}
