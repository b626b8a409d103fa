package loop

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/control"
)

var (
	// ErrReset means that a reset has begun: the agent ends, to be started again as
	// one that carries it out.
	ErrReset = errors.New("the node is reset")
	// ErrFollows means that a reset is over: the agent ends, to be started again as
	// one that follows its source.
	ErrFollows = errors.New("the reset is over")
	// ErrInReset refuses what a node in a reset does not do.
	ErrInReset = errors.New("the node is reset and has no configuration\n" +
		"hint: `loam apply` has it follow its source again")
	// ErrNotReset refuses to follow a source while something of before is there.
	ErrNotReset = errors.New("the reset is not complete\nhint: " + resetAgain)
)

const resetAgain = "`loam reset --yes` goes on with it, and so does the next start"

// beginReset records that the node is to be reset, and ends the agent.
func (l *Loop) beginReset(r *Request) {
	if err := l.Reset.Begin(); err != nil {
		r.fail(err)
		return
	}

	l.Log.Warn("reset: the agent starts again for it")
	l.await(nil)
	r.fail(ErrReset) // Before the agent ends, which ends the caller's connection.
	l.End(ErrReset)
}

// mergeReset publishes what a reset has come to and tells the caller.
func (l *Loop) mergeReset(ctx context.Context, step Step, r Result) {
	switch {
	case !r.Reset.Done: // The caller logs it.
	case r.Err != nil:
		l.Log.Warn("reset", zap.Error(r.Err))
	default:
		l.Log.Info("the node is reset")
	}

	l.show(ctx)
	if r.ResetIsOver {
		if err := l.endReset(); err != nil {
			l.warn("another machine.yaml", err)
		}
	}
	step.Request.respond(resetOutcome(l.state))
}

// resetOutcome returns what a caller learns of the reset.
func resetOutcome(s State) (control.Outcome, error) {
	err := s.Reset.Err
	switch {
	case !s.Facts.Reset.Done:
		return control.Outcome{}, fmt.Errorf("the reset is not complete: %w\nhint: %s", err, resetAgain)
	case err != nil:
		return control.Outcome{}, fmt.Errorf("the node is reset, but: %w", err)
	}
	return control.Outcome{Result: control.Reset}, nil
}

// followSource ends a reset for a caller.
func (l *Loop) followSource(r *Request) {
	if err := l.endReset(); err != nil {
		r.fail(err)
		return
	}
	r.fail(ErrFollows)
}

func (l *Loop) endReset() error {
	if err := l.Reset.Forget(); err != nil {
		return err
	}
	l.Log.Info("the reset is over: the agent starts again")
	l.End(ErrFollows)
	return nil
}
