package loop

import (
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/agent/status"
)

// afterResume notes what keeps the node from being its current generation. A
// unit that did not come up is no reason to try again.
func afterResume(s State, r Result, now time.Duration) (State, []Effect) {
	var effects []Effect
	if r.Resumed.Replacement != "" {
		effects = append(effects, Warn{
			What: "the current generation was damaged",
			Err:  errors.New("the node went on with " + r.Resumed.Replacement),
		})
	}

	s.Faults.Unfinished = nil
	switch {
	case r.Err == nil && r.Resumed.Finished != "":
		effects = append(effects, info("finished an apply that was cut off",
			zap.String("generation", r.Resumed.Finished)))
	case r.Err == nil:
	case r.Resumed.Finished != "" && !errors.Is(r.Err, apply.ErrUnfinished):
		s.Faults.Jobs = Describe(r.Err)
	default:
		s.Faults.Unfinished = Describe(r.Err)
		effects = append(effects,
			failure("resume", zap.Error(r.Err)),
			SetAlarm{Which: resumeAlarm, In: retryDelay})
	}
	s, repairs := repaired(s, r.Resumed.Repaired, now)
	s, later := unrepaired(s, r.Resumed.Drift)
	s, found := nodeObserved(s, r.Node)
	effects = append(effects, repairs...)
	effects = append(effects, later...)
	effects = append(effects, found...)

	// A read that is due observes later. But before a verdict no unit may
	// change any more.
	if !s.Due.Read || s.Change.Pending != nil {
		effects = append(effects, ObserveUnits)
	}
	return s, append(effects, Watch{})
}

// afterConclude has the source read again after a revert, as a try may have
// kept it waiting, and whenever the node ran something else than the source
// asks for.
func afterConclude(s State, step Step, r Result) (State, []Effect) {
	var effects []Effect
	v := step.Verdict
	stays := r.Err == nil && v.Word == health.Good
	if stays {
		s.Starts.Unwell = v.Unwell
	}
	if stays && len(v.Unwell) > 0 {
		effects = append(effects,
			warning("the change stays, and not all of its units are well",
				zap.String("reason", v.Reason)),
			Event{Reason: "UnitNotWell", Message: v.Reason})
	}
	if v.Word == health.Bad || step.Have.Digest != s.Desired.AppliedDigest {
		s.Due.Read = true
	}

	s, change := changed(s, r)
	effects = append(effects, change...)
	if errors.Is(r.Err, apply.ErrUnfinished) {
		s, failed := failCaller(s, r.Err)
		return s, append(effects, failed...)
	}
	if stays {
		effects = append(effects, Proven{})
	}
	if r.Err == nil {
		outcome := outcomeOf(v, step.Have, s.Current.Generation)
		if outcome == apply.Reverted {
			s.Facts.TakenBack = &status.TakenBack{Generation: step.Have.Name(), Why: v.Reason}
		}
		effects = append(effects, Count{Outcome: outcome, Began: s.Change.Began})
	}
	s, answer := answerVerdict(s, v, step.Have)
	return s, append(effects, answer...)
}

// outcomeOf returns what a verdict on the change to before has come to.
func outcomeOf(v health.Verdict, before, now generation.Manifest) apply.Outcome {
	switch {
	case v.Word == health.Good:
		return apply.Applied
	case before.Name() == now.Name():
		return apply.Failed
	}
	return apply.Reverted
}

// changedNothing reports whether an apply was refused before it changed the
// node.
func (r Result) changedNothing() bool {
	return r.Err != nil && r.Generation.Name() == "" && !errors.Is(r.Err, apply.ErrUnfinished)
}

// afterApply takes in an apply. A unit that did not come up, or not yet, is a
// fact about the node, which the verdict follows up.
func afterApply(s State, step Step, r Result) (State, []Effect) {
	s.Change.Applying = false
	if r.changedNothing() {
		return afterRefusedApply(s, step, r)
	}

	// The files that wait belong to the source's document. A caller has
	// replaced that.
	if step.Request != nil {
		s.Facts.Waits = nil
	}
	s, replaced := await(s, step.Request)
	s, change := changed(s, r)
	return s, append(replaced, change...)
}

// afterRefusedApply takes in an apply that has changed nothing. What the kernel
// refused may succeed later. A wrong configuration stays wrong until it changes.
func afterRefusedApply(s State, step Step, r Result) (State, []Effect) {
	effects := []Effect{failure("apply", zap.Error(r.Err))}
	if step.Request == nil {
		s.Faults = s.Faults.refused(status.NotApplied, Describe(r.Err))
	}
	effects = append(effects, fail(step.Request, r.Err)...)
	effects = append(effects, Unprepare{})
	if step.Hold != "" {
		effects = append(effects, Release{Digest: step.Hold})
	}
	if step.Request != nil || apply.Transient(r.Err) {
		effects = append(effects,
			SetAlarm{Which: resumeAlarm, In: retryDelay},
			SetAlarm{Which: aliveAlarm}) // The status says what the kernel lacks.
	}

	s, found := nodeObserved(s, r.Node)
	effects = append(effects, found...)
	return s, append(effects, ObserveUnits, Watch{})
}

func afterRollback(s State, step Step, r Result) (State, []Effect) {
	if r.changedNothing() {
		return s, append(fail(step.Request, r.Err), ObserveUnits)
	}
	if errors.Is(r.Err, apply.ErrUnfinished) {
		failed := fail(step.Request, r.Err)
		s, change := changed(s, r)
		return s, append(failed, change...)
	}

	s.Due.Read = true
	s, effects := await(s, nil)
	s, change := changed(s, r)
	effects = append(effects, change...)
	return s, append(effects, succeed(step.Request, control.Outcome{
		Result:     control.Reverted,
		Generation: r.Generation.Name(),
		From:       step.Have.Name(),
		Digest:     r.Generation.Digest,
	})...)
}

// afterReapply takes in that a generation is applied again which was held. It
// replaces what the source says, as an operator's apply does, and the caller
// waits for the verdict.
func afterReapply(s State, step Step, r Result) (State, []Effect) {
	if r.changedNothing() {
		return s, append(fail(step.Request, r.Err), ObserveUnits)
	}

	var effects []Effect
	if r.Holds.Err != nil {
		effects = append(effects, Warn{What: "hold the source's configuration", Err: r.Holds.Err})
	}
	if !errors.Is(r.Err, apply.ErrUnfinished) {
		s.Due.Read = true
	}
	s, replaced := await(s, step.Request)
	s, change := changed(s, r)
	effects = append(effects, replaced...)
	return s, append(effects, change...)
}

// afterConfirm takes in that the change on trial stays.
func afterConfirm(s State, step Step, r Result) (State, []Effect) {
	if r.Err != nil {
		return s, fail(step.Request, r.Err)
	}

	s, effects := nodeObserved(s, r.Node)
	effects = append(effects, ObserveUnits, Watch{})
	return s, append(effects, succeed(step.Request, control.Outcome{
		Result:     control.Confirmed,
		Generation: r.Generation.Name(),
		Digest:     r.Generation.Digest,
	})...)
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
