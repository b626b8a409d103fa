package unit

import (
	"fmt"
	"time"

	"github.com/loam-os/loam/hint/fault"
)

// State is the state of one unit, in systemd's own words.
type State struct {
	Name string

	// ID is the name that systemd itself uses if Name is an alias.
	ID string

	// Load is "loaded", "not-found", "masked", "bad-setting", "error"…
	Load string

	// Active is "active", "inactive", "activating", "deactivating",
	// "reloading" or "failed", Sub the finer state of the unit's type.
	Active, Sub string

	// Type is a service's Type=, "" for other units.
	Type string

	// InvocationID, 32 hex digits, is new at each start; "" before the first.
	InvocationID string

	// FragmentPath and DropInPaths are the files systemd has read.
	FragmentPath string
	DropInPaths  []string

	// Result is "success" or why the unit failed. ExitCode is the exit code of
	// its last main process.
	Result   string
	ExitCode int

	// Restarts is how often systemd has restarted a service by itself
	// (Restart=) since it was last started in another way.
	Restarts int

	// StartLimit is how long systemd gives a service to start (TimeoutStartSec=),
	// 0 if it sets no limit.
	StartLimit time.Duration

	// BoundBy are the units that stop and restart with this unit: RequiredBy,
	// RequisiteOf, BoundBy and ConsistsOf.
	BoundBy []string

	// Job is set if a job for the unit is queued or running.
	Job bool

	// Skipped is set if a Condition…= of the unit did not hold at its last
	// start.
	Skipped bool

	// Since is when the state last changed, on CLOCK_MONOTONIC: the time since
	// kernel start without suspend (systemd's StateChangeTimestampMonotonic).
	Since time.Duration
}

// Running reports whether the unit is up.
func (s State) Running() bool { return s.Active == "active" || s.Active == "reloading" }

// Started reports whether the unit is as a start leaves it: up, finished (as a
// service of Type=oneshot), or skipped because of a condition.
func (s State) Started() bool {
	if s.Job {
		return false
	}
	return s.Running() ||
		(s.Active == "inactive" && (s.Skipped || (s.Type == "oneshot" && s.Result == "success")))
}

// Stopped reports whether the unit is down, on its own or because it failed.
func (s State) Stopped() bool {
	return !s.Job && (s.Active == "inactive" || s.Active == "failed")
}

// JobError is a start, stop or restart that did not succeed, or has not ended
// in time.
type JobError struct {
	// Verb is "start", "stop", "restart" or "reload".
	Verb string
	Unit string
	// Result is the job's: "failed", "timeout", "canceled", "dependency"… It is
	// empty if the job has not ended.
	Result string
	// State is the state of the unit afterwards; zero if unknown.
	State State

	// After is how long a job that has not ended was waited for, and Err why no
	// longer.
	After time.Duration
	Err   error
}

// FaultCode implements [fault.Coder].
func (e *JobError) FaultCode() fault.Code { return fault.UnitFailed }

func (e *JobError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s %s: not done after %s (unit is %s/%s)",
			e.Verb, e.Unit, e.After, e.State.Active, e.State.Sub)
	}
	return fmt.Sprintf("%s %s: %s (unit is %s/%s, result %s, exit code %d)",
		e.Verb, e.Unit, e.Result, e.State.Active, e.State.Sub, e.State.Result, e.State.ExitCode)
}

func (e *JobError) Unwrap() error { return e.Err }
