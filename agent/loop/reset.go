package loop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

var (
	// ErrReset means that a reset has begun: the agent ends, and the next start
	// carries it out.
	ErrReset = errors.New("the node is reset")
	// ErrFollows means that a reset is over: the agent ends, and the next start
	// follows its source.
	ErrFollows = errors.New("the reset is over")
	// ErrInReset refuses what a node in a reset does not do.
	ErrInReset = hint.With(fault.With(errors.New("the node is reset and has no configuration"),
		fault.InReset),
		"`loam apply` has it follow its source again")
	// ErrNotReset refuses to follow a source while something is left of the node before the reset.
	ErrNotReset = hint.With(fault.With(errors.New("the reset is not complete"),
		fault.InReset), resetAgain)
)

const resetAgain = "`loam reset --yes` goes on with it, and so does the next start"

// askReset asks for a reset to begin or to be carried out, askFollow for its end.
type (
	askReset  struct{}
	askFollow struct{}
)

// Reset implements [control.Agent]. It begins a reset, or carries out the one
// that has begun. [ErrReset] means that the agent ends first, to be started
// again.
func (q Requests) Reset(ctx context.Context) (control.Outcome, error) {
	got := q.send(ctx, askReset{}, nil)
	return got.outcome, got.err
}

// Follow ends a reset. [ErrFollows] means that it has.
func (q Requests) Follow(ctx context.Context) error {
	return q.send(ctx, askFollow{}, nil).err
}

// admit returns the step for a request to reset the node. The agent that is asked
// first only records it. The next one carries it out by itself, and the first
// caller after that gets the outcome.
func (askReset) admit(s State) (Step, error) {
	switch {
	case s.Facts.Reset == nil:
		return Step{Kind: BeginReset}, nil
	case s.Reset.Ran && s.Facts.Reset.Done:
		return Step{Kind: AnswerReset}, nil
	}
	return Step{Kind: RunReset}, nil
}

func (askFollow) admit(s State) (Step, error) {
	if s.Facts.Reset == nil || !s.Facts.Reset.Done {
		return Step{}, ErrNotReset
	}
	return Step{Kind: EndReset}, nil
}

// BeginReset records the request to reset the node, and ends the agent.
var BeginReset = &Kind{
	name:    "begin a reset",
	perform: func(_ context.Context, w worker, _ Step) Result { return Result{Err: w.reset.Begin()} },
	atOnce:  true,
	after:   afterBeginReset,
}

// afterBeginReset ends the agent once the request to reset the node is recorded.
func afterBeginReset(s State, step Step, r Result, _ time.Duration) (State, []Effect) {
	if r.Err != nil {
		return s, fail(step.Request, r.Err)
	}

	effects := []Effect{warning("reset: the agent starts again for it")}
	s, replaced := await(s, nil)
	effects = append(effects, replaced...)
	// Before the agent ends, which ends the caller's connection.
	effects = append(effects, fail(step.Request, ErrReset)...)
	return s, append(effects, End{Why: ErrReset})
}

// RunReset carries out the reset that has begun.
var RunReset = &Kind{
	name:    "reset",
	begin:   beginRunReset,
	perform: performRunReset,
	after:   afterRunReset,
}

func beginRunReset(s State, _ Step, _ time.Duration) (State, []Effect) {
	began := warning("reset", zap.Time("asked", s.Facts.Reset.At))
	return s.applying(), []Effect{began, Publish{}}
}

func performRunReset(ctx context.Context, w worker, _ Step) Result {
	return Result{
		Err:         w.reset.Run(ctx),
		Reset:       w.reset.Status(),
		ResetIsOver: w.reset.Superseded(),
	}
}

// afterRunReset publishes what a reset has come to and tells the caller, after
// the end of a reset that ends by itself.
func afterRunReset(s State, step Step, r Result, _ time.Duration) (State, []Effect) {
	s.Reset = Reset{Ran: true, Err: r.Err}
	s.Change.Applying = false
	s.Facts.Reset = r.Reset

	var effects []Effect
	switch {
	case !r.Reset.Done: // The caller logs it.
		s.Faults = s.Faults.refused("", &status.Error{
			Problem: "reset: " + hint.Line(r.Err),
			Hint:    resetAgain,
		})
	case r.Err != nil:
		s = s.warn("reset: " + hint.Line(r.Err))
		effects = append(effects, warning("reset", zap.Error(r.Err)))
	default:
		effects = append(effects, info("the node is reset"))
	}

	effects = append(effects, Show{})
	if r.ResetIsOver {
		end := Step{Kind: EndReset, Request: step.Request, Superseded: true}
		return s, append(effects, Begin{Step: end})
	}
	return s, append(effects, answerReset(s, step.Request)...)
}

// AnswerReset tells a caller what the reset has come to.
var AnswerReset = &Kind{
	name:   "answer for the reset",
	begin:  beginAnswerReset,
	atOnce: true,
	after:  afterAnswerReset,
}

func beginAnswerReset(s State, _ Step, _ time.Duration) (State, []Effect) {
	s.Reset.Ran = false
	return s, nil
}

func afterAnswerReset(s State, step Step, _ Result, _ time.Duration) (State, []Effect) {
	return s, answerReset(s, step.Request)
}

// answerReset tells a caller what the reset has come to.
func answerReset(s State, r *Request) []Effect {
	o, err := resetOutcome(s)
	return respond(r, response{outcome: o, err: err})
}

// resetOutcome returns what a caller learns of the reset.
func resetOutcome(s State) (control.Outcome, error) {
	err := s.Reset.Err
	switch {
	case !s.Facts.Reset.Done:
		return control.Outcome{}, hint.With(fmt.Errorf("the reset is not complete: %w", err),
			resetAgain)
	case err != nil:
		return control.Outcome{}, fmt.Errorf("the node is reset, but: %w", err)
	}
	return control.Outcome{Result: control.Reset}, nil
}

// EndReset forgets the reset, and ends the agent.
var EndReset = &Kind{
	name:    "end the reset",
	perform: func(_ context.Context, w worker, _ Step) Result { return Result{Err: w.reset.Forget()} },
	atOnce:  true,
	after:   afterEndReset,
}

// afterEndReset ends the agent, which follows its source at the next start.
func afterEndReset(s State, step Step, r Result, _ time.Duration) (State, []Effect) {
	over := []Effect{
		info("the reset is over: the agent starts again"),
		End{Why: ErrFollows},
	}
	switch {
	case step.Superseded && r.Err != nil:
		failed := []Effect{Warn{What: "another machine.yaml", Err: r.Err}}
		return s, append(failed, answerReset(s, step.Request)...)
	case step.Superseded:
		return s, append(over, answerReset(s, step.Request)...)
	case r.Err != nil:
		return s, fail(step.Request, r.Err)
	}
	return s, append(over, fail(step.Request, ErrFollows)...)
}

// Idle drops all that is due, on a node in a reset.
var Idle = &Kind{name: "idle", begin: beginIdle, atOnce: true, after: afterIdle}

func beginIdle(s State, _ Step, _ time.Duration) (State, []Effect) {
	s.Due = Due{}
	s.Drift.Touched = nil
	return s, nil
}

func afterIdle(s State, _ Step, _ Result, _ time.Duration) (State, []Effect) {
	if s.Published.Any {
		return s, nil
	}
	return s, []Effect{Show{}}
}
