package loop

import (
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/hint"
)

// Kind is what a [Step] does.
type Kind string

const (
	// Wait for the next event: nothing is due.
	Wait Kind = ""
	// Judge the change on trial.
	Judge Kind = "judge the change"
	// Idle drops all that is due, on a node in a reset.
	Idle Kind = "idle"
	// Resume completes an apply that was cut off.
	Resume Kind = "resume"
	// Conclude carries out the verdict on a change.
	Conclude Kind = "conclude the change"
	// Repair makes the managed paths that something touched what they should
	// be.
	Repair Kind = "repair"
	// Read the source, or the document of a request.
	Read Kind = "read"
	// Probe what did not answer.
	Probe Kind = "probe"
	// Start the units that the engine owes.
	Start Kind = "start units"
	// Prune what a change has made room for.
	Prune Kind = "prune"

	// Apply a configuration.
	Apply Kind = "apply"
	// Rollback goes back to an earlier generation.
	Rollback Kind = "roll back"
	// Reapply applies an earlier generation again, although it is held.
	Reapply Kind = "apply again"
	// Confirm the change on trial.
	Confirm Kind = "confirm"
	// Verify compares all managed files with what they should be.
	Verify Kind = "verify"
	// Restart units.
	Restart Kind = "restart units"
	// BeginReset records the request to reset the node, and ends the agent.
	BeginReset Kind = "begin a reset"
	// RunReset carries out the reset that has begun.
	RunReset Kind = "reset"
	// AnswerReset tells a caller what the reset has come to.
	AnswerReset Kind = "answer for the reset"
	// EndReset forgets the reset, and ends the agent.
	EndReset Kind = "end the reset"
)

// Step is one thing to do. It has all that it needs, so that it can run beside
// the loop.
type Step struct {
	Kind Kind
	// Request is what asked for it; nil if no caller did.
	Request *Request
	// Have is the generation that is current as the step begins.
	Have generation.Manifest
	// Desired is what the source asks for as the step begins.
	Desired Desired
	// Paths are the managed paths to repair.
	Paths []string
	// Content has the files for a repair, by digest.
	Content map[string]config.Content
	// Verdict is carried out by Conclude.
	Verdict health.Verdict
	// Probes are what Probe tries.
	Probes []config.Probe
	// Document is what Read reads; nil for the document of the source.
	Document *source.Document
	// Apply is what Apply applies. Hold is the digest of the source's
	// configuration that is held meanwhile, empty if none.
	Apply apply.Request
	Hold  string
	// Superseded says that EndReset ends a reset because there is another
	// machine.yaml, not because a caller asks for it.
	Superseded bool
}

// Next returns what to do now. The order says what may wait: what was cut off
// is completed first, a verdict is carried out before the node changes again,
// and drift is repaired before a source that never stops changing is read.
func Next(s State) Step {
	switch {
	case s.Busy:
		return Step{Kind: Wait}
	case s.Due.Judge:
		return Step{Kind: Judge}
	case s.Facts.Reset != nil:
		return nextInReset(s)
	case s.Due.Resume:
		return Step{Kind: Resume, Have: s.Current.Generation}
	case s.Change.Verdict.Word == health.Good, s.Change.Verdict.Word == health.Bad:
		return Step{Kind: Conclude, Verdict: s.Change.Verdict, Have: s.Current.Generation}
	case len(s.Drift.Touched) > 0:
		return Step{Kind: Repair, Paths: s.Drift.Touched, Content: s.Desired.Content}
	case s.Due.Read:
		return Step{Kind: Read, Have: s.Current.Generation, Desired: s.Desired}
	case s.Due.Probe:
		return Step{Kind: Probe, Probes: s.Facts.Waits}
	case s.Due.Start && s.Faults.Unfinished == nil:
		return Step{Kind: Start}
	case s.Due.Prune:
		return Step{Kind: Prune}
	}

	return Step{Kind: Wait}
}

// nextInReset returns what a node in a reset does: nothing but what a request
// asks for.
func nextInReset(s State) Step {
	if s.Due != (Due{}) || len(s.Drift.Touched) > 0 {
		return Step{Kind: Idle}
	}
	return Step{Kind: Wait}
}

// Admit returns the step that a request begins, or why it is refused. It is
// asked only while no step runs.
func Admit(s State, r *Request) (Step, error) {
	inReset := s.Facts.Reset != nil
	switch {
	case r.Reset:
		return admitReset(s, r), nil
	case r.Follow && inReset && s.Facts.Reset.Done:
		return Step{Kind: EndReset, Request: r}, nil
	case r.Follow:
		return Step{}, ErrNotReset
	case inReset:
		return Step{}, ErrInReset
	case r.Verify != nil:
		return Step{Kind: Verify, Request: r, Content: s.Desired.Content}, nil
	case r.Restart != nil:
		return Step{Kind: Restart, Request: r}, nil
	case r.Confirm:
		return Step{Kind: Confirm, Request: r, Have: s.Current.Generation}, nil
	case r.Rollback != nil && r.Rollback.Held && !s.Change.trying():
		return Step{
			Kind:    Reapply,
			Request: r,
			Have:    s.Current.Generation,
			Desired: s.Desired,
		}, nil
	case r.Rollback != nil && !r.Rollback.Held:
		return Step{Kind: Rollback, Request: r, Have: s.Current.Generation}, nil
	case s.Change.trying():
		return Step{}, hint.With(
			fmt.Errorf(
				"%w: generation %s waits to be confirmed",
				control.ErrBusy, s.Change.Pending.To,
			),
			"`loam confirm`, or `loam rollback`",
		)
	}

	return Step{
		Kind:     Read,
		Request:  r,
		Have:     s.Current.Generation,
		Desired:  s.Desired,
		Document: r.document(),
	}, nil
}

// admitReset returns the step for a request to reset the node. The agent that
// is asked first only records it. The next one carries it out by itself, and
// the first caller after that gets the outcome.
func admitReset(s State, r *Request) Step {
	switch {
	case s.Facts.Reset == nil:
		return Step{Kind: BeginReset, Request: r}
	case s.Reset.Ran && s.Facts.Reset.Done:
		return Step{Kind: AnswerReset, Request: r}
	}
	return Step{Kind: RunReset, Request: r}
}

// Begin returns the state in which a step runs, and what its begin entails: what
// it does is no longer due. now is the time since kernel start.
func (s State) Begin(step Step, now time.Duration) (State, []Effect) {
	s.Busy = step.Kind.isBeside()

	switch step.Kind {
	case Judge:
		s.Due.Judge = false
	case Idle:
		s.Due = Due{}
		s.Drift.Touched = nil
	case Resume:
		s.Due.Resume = false
	case Conclude:
		return beginConclude(s, step)
	case Repair:
		s.Drift.Touched = nil
	case Read:
		s.Due.Read = s.Due.Read && step.Request != nil
	case Probe:
		s.Due.Probe = false
	case Start:
		s.Due.Start = false
	case Prune:
		s.Due.Prune = false
	case Apply:
		return beginApply(s, step, now)
	case Reapply:
		s.Change.Began = now
	case Restart:
		return s, []Effect{info("restarting on request",
			zap.Strings("units", step.Request.Restart))}
	case RunReset:
		began := warning("reset", zap.Time("asked", s.Facts.Reset.At))
		return s.applying(), []Effect{began, Publish{}}
	case AnswerReset:
		s.Reset.Ran = false
	}
	return s, nil
}

func beginConclude(s State, step Step) (State, []Effect) {
	s.Change.Verdict = health.Verdict{}
	if step.Verdict.Word != health.Bad {
		return s, nil
	}
	return s, []Effect{warning("the change made the node worse",
		zap.String("generation", step.Have.Name()),
		zap.String("reason", step.Verdict.Reason))}
}

func beginApply(s State, step Step, now time.Duration) (State, []Effect) {
	effects := []Effect{
		info("applying",
			zap.String("digest", step.Apply.Digest),
			zap.String("source", step.Apply.Source)),
		ClearAlarm{Which: startAlarm},
		Publish{},
	}
	if s.Change.Pending != nil {
		effects = append(effects, Count{Outcome: apply.Replaced, Began: s.Change.Began})
	}

	s.Faults.Jobs = nil
	s.Starts.Wait = 0
	s.Starts.Set = false
	s.Change.Began = now
	return s.applying(), effects
}

// isBeside reports whether a step runs beside the loop. Any other is done at
// once.
func (k Kind) isBeside() bool {
	switch k {
	case Wait, Judge, Idle, Confirm, BeginReset, AnswerReset, EndReset:
		return false
	}
	return true
}
