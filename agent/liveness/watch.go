package liveness

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"
)

// Every is how often each unit is probed, limit what a probe may take.
const (
	Every = 30 * time.Second
	limit = 10 * time.Second
)

// ErrBusy means that units cannot be restarted now, as a change is under way.
var ErrBusy = errors.New("a change is under way")

// Event is what happened to a unit, for people and for the cluster.
type Event struct {
	Unit string
	Word Word

	// Problem is what the probe said, "" of Recovered; Err why the unit could
	// not be restarted.
	Problem string
	Err     error
}

// Watch probes units. All fields are set before Run and not changed after.
type Watch struct {
	// Probes reports, by unit, whether it answers.
	Probes map[string]func(ctx context.Context) error

	// Standings is how each of the units stands now; one that is missing is
	// Absent.
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
			w.look(ctx, known)
		}
	}
}

// look looks at each unit once, and restarts together what is to be restarted:
// who does it knows that containerd goes before kubelet.
func (w Watch) look(ctx context.Context, known map[string]Health) {
	units := slices.Sorted(maps.Keys(w.Probes))
	standings, err := w.Standings(ctx, units)
	if err != nil { // The node's loop has ended, or is about to.
		return
	}

	failed := w.probe(ctx, units, standings)
	if ctx.Err() != nil { // So have the probes, for no fault of the units.
		return
	}

	before := maps.Clone(known)
	var restart []Event
	for _, unit := range units {
		e := Event{Unit: unit}
		known[unit], e.Word = Next(known[unit], standings[unit], failed[unit])
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

// probe asks all that are up, side by side, and returns what those said that
// do not answer.
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

// restart has units restarted. A node that is busy is asked again the next
// time, if they still fail then.
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

// Text is the event for a person.
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
