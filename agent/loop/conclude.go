package loop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// Conclude carries out the verdict on a change.
var Conclude = &Kind{
	name:    "conclude the change",
	begin:   beginConclude,
	perform: performConclude,
	after:   afterConclude,
}

func beginConclude(s State, step Step, _ time.Duration) (State, []Effect) {
	s.Change.Verdict = health.Verdict{}
	if step.Verdict.Word != health.Bad {
		return s, nil
	}
	return s, []Effect{warning("the change made the node worse",
		zap.String("generation", step.Have.Name()),
		zap.String("reason", step.Verdict.Reason))}
}

func performConclude(ctx context.Context, w worker, step Step) (r Result) {
	_, r.Err = w.engine.Conclude(ctx, step.Verdict)
	r.Node = w.observe(step)
	return r
}

// afterConclude has the source read again after a revert, as a try may have
// kept it waiting, and whenever the node ran something else than the source
// asks for.
func afterConclude(s State, step Step, r Result, _ time.Duration) (State, []Effect) {
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

// answerVerdict tells the caller of the change to before what the verdict is.
func answerVerdict(s State, v health.Verdict, before generation.Manifest) (State, []Effect) {
	caller := s.Change.Caller
	if caller == nil {
		return s, nil
	}
	s.Change.Caller = nil
	o, err := verdictOutcome(s, v, before)
	return s, respond(caller, response{outcome: o, err: err})
}

// verdictOutcome returns what the caller of the change to before learns.
func verdictOutcome(
	s State,
	v health.Verdict,
	before generation.Manifest,
) (control.Outcome, error) {
	now := s.Current.Generation
	o := control.Outcome{
		Result:     control.Applied,
		Generation: now.Name(),
		Digest:     now.Digest,
		Reason:     v.Reason,
		Unit:       v.Unit,
	}

	switch {
	case v.Word == health.Confirm:
		o.Result = control.Trying
		o.Until = s.Change.Pending.Try.Until
	case v.Word == health.Bad && now.Name() == before.Name():
		return control.Outcome{}, hint.With(
			fault.With(fmt.Errorf("applied, and not well: %s", v.Reason), fault.UnitFailed),
			"there is no generation before it to go back to",
		)
	case v.Word == health.Bad:
		o.Result = control.Reverted
		o.From = before.Name()
	}

	return o, nil
}
