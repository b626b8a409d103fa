package loop

import (
	"context"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/status"
)

// Repair makes the managed paths that something touched what they should be.
var Repair = &Kind{
	name:    "repair",
	begin:   beginRepair,
	perform: performRepair,
	after:   afterRepair,
}

func beginRepair(s State, _ Step, _ time.Duration) (State, []Effect) {
	s.Drift.Touched = nil
	return s, nil
}

func performRepair(ctx context.Context, w worker, step Step) (r Result) {
	r.Paths, r.Err = w.engine.Repair(ctx, step.Paths, step.Content)
	return r
}

// afterRepair takes in what was found at managed paths. Only what has changed is
// worth a look at the units.
func afterRepair(s State, _ Step, r Result, now time.Duration) (State, []Effect) {
	before := s.Faults.Drift
	s, effects := unrepaired(s, r.Err)
	s, repairs := repaired(s, r.Paths, now)
	effects = append(effects, repairs...)
	if len(r.Paths) > 0 || before != s.Faults.Drift {
		effects = append(effects, ObserveUnits)
	}
	return s, effects
}

// repaired counts and reports the paths that something else had changed.
func repaired(s State, paths []string, now time.Duration) (State, []Effect) {
	if len(paths) == 0 {
		return s, nil
	}

	s.Facts.Drift = status.Drift{
		Repaired: s.Facts.Drift.Repaired + len(paths),
		Last:     paths[len(paths)-1],
		At:       status.Duration(now),
	}
	first := strings.Join(paths[:min(5, len(paths))], ", ")
	return s, []Effect{
		warning("repaired what something else had changed", zap.Strings("paths", paths)),
		Event{
			Reason:  "FileMismatch",
			Message: "repaired what something else had changed: " + first,
		},
	}
}

// unrepaired notes that a managed path cannot be repaired, and has all paths
// looked at later. nil means that all can that were looked at; the fault stays
// until all paths are looked at again. A change is judged nevertheless.
func unrepaired(s State, err error) (State, []Effect) {
	switch {
	case err != nil:
		s.Faults.Drift = Describe(err)
		s.Drift.Again = true
		return s, []Effect{
			failure("repair", zap.Error(err)),
			SetAlarm{Which: repairAlarm, In: retryDelay},
		}
	case !s.Drift.Again:
		s.Faults.Drift = nil
	}
	return s, nil
}
