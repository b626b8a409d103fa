package loop

import (
	"errors"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/status"
)

// Observation is what the engine and the history say of the node.
type Observation struct {
	Current generation.Manifest
	// Pending is the change that has not proven itself; nil if none.
	Pending *apply.Pending
	// Owed are the units to start again.
	Owed []string
	// TakenBack is the change that was taken back to Current. It is read only if
	// the node had no generation before.
	TakenBack *status.TakenBack
	// Problems are what could not be read.
	Problems []Warn
}

// observe reads which generation is current, which change is on trial and which
// units are owed.
func (w worker) observe(step Step) Observation {
	var o Observation
	problem := func(what string, err error) {
		if err != nil {
			o.Problems = append(o.Problems, Warn{What: what, Err: err})
		}
	}

	current, _, err := w.engine.Current()
	problem("read the current generation", err)
	o.Current = current

	pending, isPending, err := w.engine.Pending()
	problem("read the journal", err)
	if isPending {
		o.Pending = &pending
	}

	o.Owed, err = w.engine.Owed()
	problem("read what is owed", err)
	if step.Have.Name() == "" {
		o.TakenBack = w.host.TakenBack(current.Name())
	}
	return o
}

// changed takes in that the engine has made the node something else, with what
// went wrong.
func changed(s State, r Result) (State, []Effect) {
	s.Faults.Unfinished = nil
	s.Faults.Jobs = nil
	s.Due.Prune = true
	s, effects := nodeObserved(s, r.Node)

	name := zap.String("generation", s.Current.Generation.Name())
	switch {
	case errors.Is(r.Err, apply.ErrUnfinished):
		s.Faults.Unfinished = Describe(r.Err)
		effects = append(effects,
			failure("apply", zap.Error(r.Err)),
			SetAlarm{Which: resumeAlarm, In: retryDelay})
	case r.Err != nil:
		s.Faults.Jobs = Describe(r.Err)
		effects = append(effects, warning("units did not come up", name, zap.Error(r.Err)))
	default:
		effects = append(effects, info("the node runs", name))
	}
	return s, append(effects, ObserveUnits, Watch{})
}

// nodeObserved takes in what a step has made of the node. Once the node is
// published, the paths of a new generation have to be watched.
func nodeObserved(s State, o Observation) (State, []Effect) {
	var effects []Effect
	for _, problem := range o.Problems {
		effects = append(effects, problem)
	}
	s, later := startLater(s.observed(o))
	return s, append(effects, later...)
}
