package fleetlock

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/network"
	"github.com/loam-os/loam/hint/redact"
)

const (
	// interval is how often the upgrade is looked at, which asks nothing of the
	// server.
	interval = 10 * time.Second

	// retry is how long the pause after an error or a refusal is, about.
	retry = 30 * time.Second

	// timeout is how long a request may take.
	timeout = 10 * time.Second
)

// Step is what to ask of the server.
type Step string

const (
	Nothing Step = ""
	Lock    Step = "lock"
	Unlock  Step = "unlock"
)

// State is what the machine knows of its slot.
type State struct {
	// Wanted says that the machine is about to restart with another system.
	// Before that was asked once, it is not Known.
	Wanted, Known bool

	// Phase is the phase of the upgrade, as in the status.
	Phase string

	// Held says that the machine has a slot, Released that it has none for sure.
	Held, Released bool

	// Problem is why the last step failed, "" if it did not. [Next] does not use it.
	Problem string
}

// Next returns the next step. A system that is on trial keeps the slot that the
// system before it took, and so does an agent that has started again before the
// restart.
func Next(s State) Step {
	armed := s.Phase == "armed"
	switch {
	case armed && s.Wanted && !s.Held:
		return Lock
	case armed && (s.Wanted || !s.Known), s.Phase == "trial", s.Released:
		return Nothing
	}
	return Unlock
}

// Slot is the slot of the machine. Several goroutines may use it.
type Slot struct {
	server  Server
	phase   func() string
	part    func() float64
	log     *zap.Logger
	changed chan struct{}
	wake    chan struct{}

	mu    sync.Mutex
	state State
}

// NewSlot returns the slot of a machine at a server. phase returns the phase of
// the upgrade, part a random number in [0, 1).
func NewSlot(server Server, phase func() string, part func() float64, log *zap.Logger) *Slot {
	return &Slot{
		server:  server,
		phase:   phase,
		part:    part,
		log:     log,
		changed: make(chan struct{}, 1),
		wake:    make(chan struct{}, 1),
	}
}

// Await returns why the machine may not restart yet, "" if it may. If it does
// not want to, it is not to restart now.
func (s *Slot) Await(wants bool) (why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.Wanted != wants || !s.state.Known {
		s.state.Wanted = wants
		s.state.Known = true
		signal(s.wake)
	}
	if wants && s.state.Held {
		return ""
	}

	why = "waits for a slot of " + redact.URLs(s.server.URL)
	if s.state.Problem != "" {
		why += ": " + s.state.Problem
	}
	return why
}

// Changed is signalled when the machine has got its slot, or has another reason to
// wait.
func (s *Slot) Changed() <-chan struct{} { return s.changed }

// Run asks the server until ctx ends.
func (s *Slot) Run(ctx context.Context) {
	for {
		pause := interval
		if err := s.step(ctx); err != nil {
			s.log.Warn("slot for a restart", zap.Error(err))
			pause = time.Duration((0.5 + s.part()) * float64(retry))
		}

		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		case <-time.After(pause):
		}
	}
}

// step does the next step.
func (s *Slot) step(ctx context.Context) error {
	phase := s.phase()
	s.mu.Lock()
	s.state.Phase = phase
	step := Next(s.state)
	switch step {
	case Lock:
		s.state.Released = false // The server may give one, and its answer get lost.
	case Unlock:
		s.state.Held = false // From now on, the slot may be another machine's.
	}
	s.mu.Unlock()

	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	switch step {
	case Lock:
		if err := s.server.Lock(ctx); err != nil {
			return s.failed(err)
		}
		s.set(true)
		signal(s.changed)
	case Unlock:
		if err := s.server.Unlock(ctx); err != nil {
			return s.failed(err)
		}
		s.set(false)
	}
	return nil
}

// set records that the machine has a slot, or has none.
func (s *Slot) set(held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Held = held
	s.state.Released = !held
	s.state.Problem = ""
}

// failed records why a step failed, and returns the error. Only another reason is a
// change.
func (s *Slot) failed(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	problem := network.WithoutLocal(hint.Line(err))
	if problem != s.state.Problem {
		s.state.Problem = problem
		signal(s.changed)
	}
	return err
}

func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}
