package agent

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/agent/loop"
	"github.com/loam-os/loam/agent/reset"
	"github.com/loam-os/loam/agent/upgrade"
	"github.com/loam-os/loam/agent/upgrade/service"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// operator implements [control.Agent] for an agent that runs on a node.
type operator struct {
	loop.Requests
	reset *reset.Reset
	// upgrades is nil on a node that cannot be upgraded.
	upgrades *service.Service
}

// Upgrade implements [control.Agent].
func (o operator) Upgrade(ctx context.Context, r control.UpgradeRequest) (control.Outcome, error) {
	if o.upgrades == nil {
		return control.Outcome{}, hint.With(
			fault.With(errors.New("this node cannot be upgraded"), fault.NotThisNode),
			"it was not started from a disk of its own; see `loam status`")
	}

	if r.Cancel {
		version, err := o.upgrades.Handle(ctx, service.Request{Cancel: true})
		return control.Outcome{Result: control.Canceled, Version: version}, err
	}

	options := upgrade.Options{
		Ref:    r.From,
		Again:  r.Again,
		Now:    r.Now,
		AtOnce: r.Now || r.Back || r.Drill != "",
		Stay:   r.Stay,
	}
	request := service.Request{
		Options:  options,
		Version:  r.Version,
		Permit:   r.Permit,
		Plan:     r.Plan,
		Rollback: r.Back,
		Drill:    r.Drill,
	}

	outcome := control.Outcome{Result: control.Armed}
	var err error
	if r.Plan {
		var p service.Planned
		p, err = o.upgrades.Foresee(ctx, request)
		outcome.Result = control.Planned
		outcome.From = p.From
		outcome.Version = p.To
		outcome.Size = p.Size
	} else {
		outcome.Version, err = o.upgrades.Handle(ctx, request)
	}

	if opens := o.upgrades.Opens(options); !opens.IsZero() && !r.Stay {
		outcome.Reason = opens.Format(" on Mon at 15:04 MST")
	}
	return outcome, err
}

// Reset implements [control.Agent].
func (o operator) Reset(ctx context.Context) (control.Outcome, error) {
	outcome, err := o.Requests.Reset(ctx)
	return outcome, restarting(err)
}

// Apply implements [control.Agent]. On a node in a reset it ends the reset, and
// the next agent carries out the request.
func (o operator) Apply(ctx context.Context, r control.ApplyRequest) (control.Outcome, error) {
	// The record does not change until the agent ends.
	if !o.reset.Active() {
		return o.Requests.Apply(ctx, r)
	}
	return control.Outcome{}, restarting(o.Requests.Follow(ctx))
}

// restarting marks the errors with which an agent ends to be started again.
func restarting(err error) error {
	if errors.Is(err, loop.ErrReset) || errors.Is(err, loop.ErrFollows) {
		return fmt.Errorf("%w: %w", err, control.ErrRestarting)
	}
	return err
}

// resetUnfinished reports whether an earlier agent has begun a reset, and none
// has completed it.
func (o operator) resetUnfinished() bool {
	s := o.reset.Status()
	return s != nil && !s.Done
}

// goOn carries out what an earlier agent has begun.
func (o operator) goOn(ctx context.Context, log *zap.Logger) {
	if _, err := o.Reset(ctx); err != nil && ctx.Err() == nil {
		log.Error("reset", zap.Error(err))
	}
}
