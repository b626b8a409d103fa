package loop

import (
	"slices"
	"strings"
	"time"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/unit"
)

// State is all that the decisions of the loop need. It is a value: methods
// return another State, and share only slices and maps that are never changed.
type State struct {
	// Facts are the parts of the status that are published as they are, such as
	// image, machine, volume and warnings.
	Facts   status.Status
	Desired Desired
	Current Current
	Change  Change
	Starts  Starts
	Drift   Drift
	Reset   Reset
	Faults  Faults
	Due     Due
	// Published is what operators were shown last.
	Published Published
	// Busy says that a step runs beside the loop.
	Busy bool
}

// Desired is what the source asked for last.
type Desired struct {
	// Version is the source's name for it, empty if it has none.
	Version string
	// FullDigest is the digest of all of it, AppliedDigest without the files
	// that wait for a probe.
	FullDigest, AppliedDigest string
	// Content has its files by digest.
	Content map[string]config.Content
	// Notes are the notes that operators were told of last.
	Notes []config.Note
}

// Current is what the node is.
type Current struct {
	// Generation is zero if the node has none.
	Generation generation.Manifest
	// Units are the states of its units as observed last, in the same order and
	// without templates. Observed says that they are of this generation.
	Units    []unit.State
	Observed bool
}

// Change is the change on trial, or the one being made.
type Change struct {
	// Pending is the change that has not proven itself; nil if none.
	Pending *apply.Pending
	// Applying says that a step makes the node something else: until it is
	// done, nothing counts as applied, however well the units are.
	Applying bool
	// Resuming says that a step completes what was cut off.
	Resuming bool
	// Began is when the last change began, 0 if there was no change in this run.
	Began time.Duration
	// Caller waits for the verdict; nil if there is none.
	Caller *Request
	// Verdict is the verdict to carry out; zero if none.
	Verdict health.Verdict
	// Shown is the change in the status. Job is the unit for which the step
	// that runs waits, Unit the one for which the verdict waits.
	Shown     *status.Change
	Job, Unit *status.Awaited
}

// trying reports whether the change on trial waits for an operator to confirm
// it.
func (c Change) trying() bool { return c.Pending != nil && c.Pending.Try != nil }

// Drift lists the managed paths to check.
type Drift struct {
	// Touched are the paths that something may have changed, sorted.
	Touched []string
	// Watched is the generation whose paths are watched. Guarded says that all
	// paths of the current generation are, Blind that the watch has ended.
	Watched        generation.Manifest
	Guarded, Blind bool
	// Again says that all paths are looked at again later, as one cannot be
	// repaired.
	Again bool
}

// Reset is the outcome of a reset that this agent has carried out.
type Reset struct {
	// Ran says that it has, and no caller has got the outcome yet.
	Ran bool
	Err error
}

// Due is what comes next.
type Due struct {
	Judge  bool
	Resume bool
	Read   bool
	Probe  bool
	Start  bool
	Prune  bool
}

// reread returns the state with a read of the source due, after the unfinished
// change.
func (s State) reread() State {
	s.Due.Read = true
	if s.Faults.Unfinished != nil {
		s.Due.Resume = true
	}
	return s
}

// touch returns the state with more paths to look at.
func (s State) touch(paths []string) State {
	touched := slices.Concat(s.Drift.Touched, paths)
	slices.Sort(touched)
	s.Drift.Touched = slices.Compact(touched)
	return s
}

// warn returns the state with one more warning, if it is a new one.
func (s State) warn(text string) State {
	if !slices.Contains(s.Facts.Warnings, text) {
		s.Facts.Warnings = append(slices.Clone(s.Facts.Warnings), text)
	}
	return s
}

// concerns reports whether a change of a unit matters.
func (s State) concerns(name string) bool {
	return slices.ContainsFunc(s.Current.Generation.Units, func(u generation.Unit) bool {
		return u.Name == name
	})
}

// observed returns the state with what the engine says of the node now.
func (s State) observed(o Observation) State {
	before := s.Current.Generation.Name()
	current := o.Current
	same := before == current.Name()

	s.Current.Generation = current
	s.Change.Pending = o.Pending
	s.Starts = s.Starts.observed(same, o.Pending, o.Owed)
	if before == "" {
		s.Facts.TakenBack = o.TakenBack
	}
	if same {
		return s
	}

	s.Current.Observed = false
	if before != "" {
		s.Facts.TakenBack = nil
		s.Facts.AppliedAt = 0
	}
	if held := s.Facts.Held; held != nil && strings.HasPrefix(current.Digest, held.Digest) {
		s.Facts.Held = nil // An operator has asked for it.
	}
	return s
}

// applying returns the state of a node that is made something else.
func (s State) applying() State {
	s.Faults = s.Faults.accepted()
	s.Facts.AppliedAt = 0
	s.Change.Shown = nil
	s.Change.Unit = nil
	s.Change.Applying = true
	return s
}

// ring returns the state after an alarm, and what the alarm entails. now is the
// time since kernel start.
func (s State) ring(which alarm, now time.Duration) (State, []Effect) {
	switch which {
	case readAlarm:
		return s.reread(), nil
	case resumeAlarm:
		s.Due.Resume = true
		s.Due.Read = true
	case probeAlarm:
		s.Due.Probe = true
	case startAlarm:
		s.Due.Start = true
		s.Starts.Set = false
	case repairAlarm:
		s.Drift.Again = false
		return s.touch(generation.Paths(s.Current.Generation)), nil
	case observeAlarm:
		return s, []Effect{ObserveUnits}
	case jobAlarm:
		if s.Busy {
			return s, []Effect{ObserveJobs}
		}
	case idleAlarm:
		return s, []Effect{FreeMemory{}}
	case aliveAlarm:
		return s, aliveEffects(now)
	}
	return s, nil
}

// aliveEffects are what the loop does again and again, as nothing reports it.
func aliveEffects(now time.Duration) []Effect {
	effects := []Effect{
		Alive{},
		SetAlarm{Which: aliveAlarm, In: aliveInterval},
		ObserveStorage,
		ObserveLimits,
	}
	if now >= clockDelay {
		effects = append(effects, ObserveClock)
	}
	return effects
}
