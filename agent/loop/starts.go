package loop

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/hint"
)

// Starts are the units that a change could not start, or that did not stay
// well, although they revert nothing.
type Starts struct {
	// Owed are the units to start again after Wait: see [apply.Executor.Retry].
	// Set says that the alarm for that is set.
	Owed []string
	Wait time.Duration
	Set  bool
	// Well are the units that were well before the change that led here. Unwell
	// are the units that are shown until they are well.
	Well   []string
	Unwell []health.Unwell
}

const (
	// firstStart is how long the loop waits before it starts a unit again. It
	// waits twice as long each time, at most lastStart.
	firstStart = 5 * time.Second
	lastStart  = 5 * time.Minute
)

// backoff returns how long to wait after a wait that did not help.
func backoff(wait time.Duration) time.Duration {
	return min(max(2*wait, firstStart), lastStart)
}

// observed returns the starts with what the engine says. same says that the
// generation is still the same.
func (s Starts) observed(same bool, pending *apply.Pending, owed []string) Starts {
	if !same {
		s.Well = nil
		s.Unwell = nil
	}
	if pending != nil {
		s.Well = pending.Well
	}
	s.Owed = owed
	return s
}

// warnings has a line for each unit that is not well.
func (s Starts) warnings() []string {
	var all []string
	for _, u := range s.Unwell {
		all = append(all, hint.Line(hint.With(errors.New(u.How), "`loam logs %s`", u.Unit)))
	}
	return all
}

// withUnits returns the state with the observed states of the units. again is
// when to observe them once more, 0 for never.
func (s State) withUnits(
	units []unit.State,
	now, steady time.Duration,
) (observed State, again time.Duration) {
	s.Current.Units = units

	// A unit that came up by itself is no longer owed, which the engine finds
	// out.
	for _, u := range units {
		if u.Started() && slices.Contains(s.Starts.Owed, u.Name) {
			s.Due.Start = true
		}
	}

	var unwell []health.Unwell
	for _, u := range s.Starts.Unwell {
		recovered, left := s.Current.recovered(u.Unit, now, steady)
		if !recovered {
			unwell = append(unwell, u)
		}
		if left > 0 && (again == 0 || left < again) {
			again = left
		}
	}
	s.Starts.Unwell = unwell
	return s, again
}

// recovered reports whether a unit has been well for steady. left is how long
// it must still be well, 0 if it is not well. A unit that is no longer observed
// counts as recovered.
func (c Current) recovered(
	name string,
	now, steady time.Duration,
) (recovered bool, left time.Duration) {
	observed, ok := c.state(name)
	if !ok {
		return true, 0
	}

	for _, want := range c.Generation.Units {
		if want.Name != name {
			continue
		}
		if well, _ := health.Well(want, observed); !well {
			continue
		}
		left := max(observed.Since+steady-now, 0)
		return left == 0, left
	}
	return false, 0
}

// Start the units that the engine owes.
var Start = &Kind{
	name:    "start units",
	begin:   beginStart,
	perform: performStart,
	after:   afterStart,
}

func beginStart(s State, _ Step, _ time.Duration) (State, []Effect) {
	s.Due.Start = false
	return s, nil
}

func performStart(ctx context.Context, w worker, _ Step) (r Result) {
	r.Owed, r.Err = w.engine.Retry(ctx)
	return r
}

func afterStart(s State, _ Step, r Result, _ time.Duration) (State, []Effect) {
	s.Starts.Owed = r.Owed
	s.Faults.Jobs = Describe(r.Err)

	var effects []Effect
	if r.Err != nil {
		effects = append(effects, warning("units did not come up",
			zap.Strings("units", r.Owed),
			zap.Error(r.Err)))
	}
	s, later := startLater(s)
	effects = append(effects, later...)
	return s, append(effects, ObserveUnits)
}

// startLater sets the alarm for the units that are owed.
func startLater(s State) (State, []Effect) {
	switch {
	case len(s.Starts.Owed) == 0:
		s.Starts.Wait = 0
		s.Starts.Set = false
		return s, []Effect{ClearAlarm{Which: startAlarm}}
	case s.Starts.Set:
		return s, nil
	}

	s.Starts.Wait = backoff(s.Starts.Wait)
	s.Starts.Set = true
	return s, []Effect{SetAlarm{Which: startAlarm, In: s.Starts.Wait}}
}
