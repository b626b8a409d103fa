package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/registry"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// askRestart asks for units to be restarted, one after the other. Only the agent
// itself may ask for Any.
type askRestart struct {
	Units []string
	Any   bool
}

// Restart implements [control.Agent].
func (q Requests) Restart(
	ctx context.Context,
	r control.RestartRequest,
) (control.Outcome, error) {
	got := q.send(ctx, askRestart{Units: r.Units}, nil)
	return got.outcome, got.err
}

// RestartUnits restarts any units, one after the other, when nothing else changes
// the node.
func (q Requests) RestartUnits(ctx context.Context, units []string) error {
	return q.send(ctx, askRestart{Units: units, Any: true}, nil).err
}

// busyAfter is how long a restart of units that hang waits for the loop.
// Reading a configuration waits [registry.AnswerLimit] for a containerd that
// hangs, so the restart gets its turn between two reads.
const busyAfter = registry.AnswerLimit + 5*time.Second

// RestartUnlessBusy is RestartUnits for [liveness.Watch]. It returns
// [liveness.ErrBusy] while a change is being made, which restarts units itself.
func (q Requests) RestartUnlessBusy(ctx context.Context, units []string) error {
	return q.send(ctx, askRestart{Units: units, Any: true}, time.After(busyAfter)).err
}

// admit refuses an operator what the configuration does not start: nothing is
// restarted if one of several units is wrong.
func (a askRestart) admit(s State) (Step, error) {
	for _, name := range a.Units {
		if a.Any {
			break
		}
		if err := s.Current.checkStarted(name); err != nil {
			return Step{}, err
		}
	}
	return Step{Kind: Restart, Have: s.Current.Generation}, nil
}

// checkStarted returns an error unless the configuration starts a unit.
func (c Current) checkStarted(name string) error {
	known := c.unitNames()
	if slices.Contains(known, name) {
		stops := func(u generation.Unit) bool { return u.Name == name && u.Stopped }
		if !slices.ContainsFunc(c.Generation.Units, stops) {
			return nil
		}
		return hint.With(fault.With(fmt.Errorf("unit %s is stopped by the configuration", name),
			fault.CannotBeApplied), "start it there, and `loam apply`")
	}

	err := fault.With(fmt.Errorf("unit %s is not of this node's configuration", name),
		fault.NoSuchUnit)
	if nearest := document.Nearest(name, known); nearest != "" {
		return hint.With(err, "`loam restart %s`?", nearest)
	}
	return hint.With(err, "`systemctl restart %s` restarts any other", name)
}

// Restart units.
var Restart = &Kind{
	name:    "restart units",
	begin:   beginRestart,
	perform: performRestart,
	after:   afterRestart,
}

func beginRestart(s State, step Step, _ time.Duration) (State, []Effect) {
	asked := step.Request.Ask.(askRestart)
	return s, []Effect{info("restarting on request", zap.Strings("units", asked.Units))}
}

func performRestart(ctx context.Context, w worker, step Step) Result {
	asked := step.Request.Ask.(askRestart)
	var errs []error
	for _, name := range asked.Units {
		err := w.units.Restart(ctx, name)
		if err != nil && !asked.Any {
			err = hint.With(err, "`loam logs %s`", name)
		}
		errs = append(errs, err)
	}
	return Result{Err: errors.Join(errs...)}
}

func afterRestart(s State, step Step, r Result, _ time.Duration) (State, []Effect) {
	answer := fail(step.Request, r.Err)
	if r.Err == nil {
		answer = succeed(step.Request, control.Outcome{
			Result:     control.Restarted,
			Generation: step.Have.Name(),
			Digest:     step.Have.Digest,
		})
	}
	return s, append(answer, ObserveUnits)
}
