package loop

import (
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/status"
)

// Result is what a step has come to. Which fields are set depends on the step.
type Result struct {
	Err error
	// Resumed is the result of Resume.
	Resumed apply.Resumed
	// Read is the document that Read has read.
	Read Reading
	// Holds is what Read and Reapply have found or made of the holds.
	Holds Holds
	// Generation is the current generation after Apply, Rollback, Reapply and
	// Confirm, zero if they have changed nothing.
	Generation generation.Manifest
	// Node is what a step that changes the node has made of it.
	Node Observation
	// Paths are the managed paths that Repair has repaired, Owed the units that
	// have not started after Start.
	Paths, Owed []string
	// Answers says that a probe answers now.
	Answers bool
	// Verified is the result of Verify.
	Verified apply.Verified
	// Reset is the reset after RunReset. ResetIsOver says that it ends by
	// itself.
	Reset       *status.Reset
	ResetIsOver bool
}

// Reading is a configuration as the source or a caller gave it.
type Reading struct {
	Name    string
	Version string
	// Desired lacks the files that wait for a probe.
	Desired config.Desired
	// FullDigest is the digest of all of it, Desired's without the files that
	// wait.
	FullDigest string
	// Waits are its probes that do not answer yet.
	Waits []config.Probe
}

// Holds is what a step has found or made of the holds.
type Holds struct {
	// Held is why the configuration of the source is not to be applied by
	// itself, nil if it is not held. Err says that this is unknown, or that the
	// configuration cannot be held.
	Held *apply.Held
	Err  error
	// Released is why the configuration that the source gave before is still
	// held; nil if it is not.
	Released error
	// Source is the digest of the source's configuration that was held for a
	// caller's, empty if none was.
	Source string
}

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

// digest returns the digest of Desired.
func (r Reading) digest() string {
	if len(r.Waits) == 0 && r.FullDigest != "" {
		return r.FullDigest // Making it takes time.
	}
	return r.Desired.Digest()
}

// After returns what the result of a step makes of the state, and what else it
// entails. now is the time since kernel start.
func (s State) After(step Step, r Result, now time.Duration) (State, []Effect) {
	s.Busy = false
	s.Change.Job = nil

	switch step.Kind {
	case Judge:
		return s, []Effect{ObserveUnits}
	case Idle:
		return afterIdle(s)
	case Resume:
		return afterResume(s, r, now)
	case Conclude:
		return afterConclude(s, step, r)
	case Repair:
		return afterRepair(s, r, now)
	case Read:
		return afterRead(s, step, r)
	case Probe:
		return afterProbe(s, r)
	case Start:
		return afterStart(s, r)
	case Prune:
		return afterPrune(s, r)
	case Apply:
		return afterApply(s, step, r)
	case Rollback:
		return afterRollback(s, step, r)
	case Reapply:
		return afterReapply(s, step, r)
	case Confirm:
		return afterConfirm(s, step, r)
	case Verify:
		return afterVerify(s, step, r, now)
	case Restart:
		return s, append(respond(step.Request, response{err: r.Err}), ObserveUnits)
	case BeginReset:
		return afterBeginReset(s, step, r)
	case RunReset:
		return afterRunReset(s, step, r)
	case AnswerReset:
		return s, answerReset(s, step.Request)
	case EndReset:
		return afterEndReset(s, step, r)
	}
	return s, nil
}

func afterIdle(s State) (State, []Effect) {
	if s.Published.Any {
		return s, nil
	}
	return s, []Effect{Show{}}
}

func afterProbe(s State, r Result) (State, []Effect) {
	s.Due.Read = s.Due.Read || r.Answers
	if r.Answers || len(s.Facts.Waits) == 0 {
		return s, nil
	}
	return s, []Effect{SetAlarm{Which: probeAlarm, In: probeDelay}}
}

func afterStart(s State, r Result) (State, []Effect) {
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

func afterPrune(s State, r Result) (State, []Effect) {
	effects := []Effect{SetAlarm{Which: idleAlarm, In: idleDelay}}
	if r.Err != nil {
		effects = append(effects, Warn{What: "delete old generations", Err: r.Err})
	}
	return s, effects
}
