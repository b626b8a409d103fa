package liveness

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"
)

// Every is the interval between probes of a unit, limit the timeout of a probe.
const (
	Every = 30 * time.Second
	limit = 10 * time.Second
)

// ErrBusy means that units cannot be restarted now, as a change is under way.
var ErrBusy = errors.New("a change is under way")

// Event is what happened to a unit, for the log and for the cluster.
type Event struct {
	Unit string
	Word Word

	// Problem is the error of the probe, "" for Recovered; Err is why the unit
	// could not be restarted.
	Problem string
	Err     error
}

// Watch probes units. All fields must be set before Run and not changed after.
type Watch struct {
	// Probes has a probe for each unit, which returns an error if it does not
	// answer.
	Probes map[string]func(ctx context.Context) error

	// Patience is how many times in a row a unit may fail before it is restarted,
	// for those that get more than two.
	Patience map[string]int

	// Standings returns the standing of each unit; a missing unit is Absent.
	Standings func(ctx context.Context, units []string) (map[string]Standing, error)

	// Restart restarts units and returns when that is done. While a change is
	// under way it does nothing and returns ErrBusy.
	Restart func(ctx context.Context, units []string) error

	// Report is called from the goroutine of Run.
	Report func(e Event)
}

// Run watches until ctx ends.
func (w Watch) Run(ctx context.Context) {
	known := map[string]Health{}
	tick := time.NewTicker(Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			w.Look(ctx, known)
		}
	}
}

// Look probes each unit once, adds that to what is known, and restarts all that
// need it in one call, in the order of their names, which is also the order in which
// they need each other. Run calls it every [Every].
func (w Watch) Look(ctx context.Context, known map[string]Health) {
	units := slices.Sorted(maps.Keys(w.Probes))
	standings, err := w.Standings(ctx, units)
	if err != nil { // The node's loop has ended, or will.
		return
	}

	failed := w.probe(ctx, units, standings)
	if ctx.Err() != nil { // The probes ended with ctx, not because of the units.
		return
	}

	before := maps.Clone(known)
	var restart []Event
	for _, unit := range units {
		e := Event{Unit: unit}
		known[unit], e.Word = Next(known[unit], standings[unit], failed[unit],
			cmp.Or(w.Patience[unit], maxFailures))
		if failed[unit] != nil {
			e.Problem = failed[unit].Error()
		}
		switch e.Word {
		case Nothing:
		case Restart:
			restart = append(restart, e)
		default:
			w.Report(e)
		}
	}

	w.restart(ctx, restart, before, known)
}

// probe probes all units that are up concurrently, and returns the errors of
// those that do not answer.
func (w Watch) probe(
	ctx context.Context, units []string, standings map[string]Standing,
) map[string]error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	type answer struct {
		unit string
		err  error
	}

	answers := make(chan answer)
	asked := 0
	for _, unit := range units {
		if standings[unit] == Up {
			asked++
			go func() { answers <- answer{unit, w.Probes[unit](ctx)} }()
		}
	}

	failed := map[string]error{}
	for range asked {
		if a := <-answers; a.err != nil {
			failed[a.unit] = a.err
		}
	}

	return failed
}

// restart restarts units. If the node is busy, the units that still fail are
// restarted after the next probe.
func (w Watch) restart(ctx context.Context, events []Event, before, known map[string]Health) {
	if len(events) == 0 {
		return
	}

	var units []string
	for _, e := range events {
		units = append(units, e.Unit)
	}

	err := w.Restart(ctx, units)
	if errors.Is(err, ErrBusy) || ctx.Err() != nil {
		for _, unit := range units {
			known[unit] = before[unit]
		}
		return
	}

	for _, e := range events {
		e.Err = err
		w.Report(e)
	}
}

// Text returns the event as a sentence.
func (e Event) Text() string {
	switch {
	case e.Word == Recovered:
		return e.Unit + " answers again"
	case e.Err != nil:
		return e.Unit + " does not answer, and cannot be restarted: " + e.Err.Error()
	case e.Word == Restart:
		return e.Unit + " was restarted, as it did not answer: " + e.Problem
	}
	return e.Unit + " does not answer: " + e.Problem
}
