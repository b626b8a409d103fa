package loop

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/control"
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

// resets begins and ends resets of the node.
type resets struct {
	node  *node
	reset Resetter
}

// begin records the request to reset the node, and ends the agent.
func (c resets) begin(r *Request) {
	if err := c.reset.Begin(); err != nil {
		r.fail(err)
		return
	}

	c.node.log.Warn("reset: the agent starts again for it")
	c.node.caller.await(nil)
	r.fail(ErrReset) // Before the agent ends, which ends the caller's connection.
	c.node.host.End(ErrReset)
}

// ran publishes what a reset has come to and tells the caller.
func (c resets) ran(ctx context.Context, step Step, r Result) {
	switch {
	case !r.Reset.Done: // The caller logs it.
	case r.Err != nil:
		c.node.log.Warn("reset", zap.Error(r.Err))
	default:
		c.node.log.Info("the node is reset")
	}

	c.node.show(ctx)
	if r.ResetIsOver {
		if err := c.end(); err != nil {
			c.node.warn("another machine.yaml", err)
		}
	}
	step.Request.respond(resetOutcome(c.node.state))
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

// follow ends a reset for a caller.
func (c resets) follow(r *Request) {
	if err := c.end(); err != nil {
		r.fail(err)
		return
	}
	r.fail(ErrFollows)
}

func (c resets) end() error {
	if err := c.reset.Forget(); err != nil {
		return err
	}
	c.node.log.Info("the reset is over: the agent starts again")
	c.node.host.End(ErrFollows)
	return nil
}
