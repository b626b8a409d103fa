package loop

import (
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/agent/status"
)

// afterRepair takes in what was found at managed paths. Only what has changed is
// worth a look at the units.
func afterRepair(s State, r Result, now time.Duration) (State, []Effect) {
	before := s.Faults.Drift
	s, effects := unrepaired(s, r.Err)
	s, repairs := repaired(s, r.Paths, now)
	effects = append(effects, repairs...)
	if len(r.Paths) > 0 || before != s.Faults.Drift {
		effects = append(effects, ObserveUnits)
	}
	return s, effects
}

// afterVerify answers the caller of a verification.
func afterVerify(s State, step Step, r Result, now time.Duration) (State, []Effect) {
	s, effects := repaired(s, repairedBy(r.Verified), now)
	got := response{report: reportOf(r.Verified), err: r.Err}
	effects = append(effects, respond(step.Request, got)...)
	return s, append(effects, ObserveUnits)
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

// repairedBy returns the paths that a verification has repaired.
func repairedBy(v apply.Verified) []string {
	var paths []string
	for _, bad := range v.Bad {
		if bad.Repaired {
			paths = append(paths, bad.Path)
		}
	}
	return paths
}

// reportOf returns a verification as the caller gets it.
func reportOf(v apply.Verified) control.VerifyReport {
	report := control.VerifyReport{Checked: v.Checked, Bytes: v.Bytes}
	for _, bad := range v.Bad {
		report.Bad = append(report.Bad, control.Finding(bad))
	}
	return report
}
