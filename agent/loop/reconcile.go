package loop

import (
	"context"
	"errors"
	"slices"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/limits"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/status"
)

// reconciler makes the node what its source says, or what a caller asks for.
type reconciler struct {
	node   *node
	report reporter
}

// next takes in a configuration that was read. It returns the step that applies
// it, and Wait if it is not to be applied.
func (c reconciler) next(ctx context.Context, step Step, r Result) Step {
	if step.Request == nil {
		return c.reconcile(ctx, r)
	}

	applies, err := c.reconcileFor(step.Request, r)
	if err != nil {
		step.Request.fail(err)
	}
	return applies
}

// reconcile makes the node what the source says.
func (c reconciler) reconcile(ctx context.Context, r Result) Step {
	switch {
	case errors.Is(r.Err, source.ErrAbsent):
		c.node.log.Info("no configuration at the source: the node keeps what it has",
			zap.Error(r.Err))
	case errors.Is(r.Err, source.ErrFetching):
		c.node.alarms.soon(readAlarm, retryDelay) // The source notifies when it is there.
	case r.Err != nil:
		c.reportUnreadable(r.Err)
	default:
		c.accept(r)
		var applies bool
		c.node.state, applies = c.node.state.applies(r.Holds.Held, r.Holds.Err)
		if applies && c.waitsForThreads() {
			applies = false
		}
		if applies {
			return Step{
				Kind: Apply,
				Have: c.node.state.Current.Generation,
				Apply: apply.Request{
					Desired: r.Read.Desired,
					Digest:  r.Read.digest(),
					Source:  r.Read.Name,
				},
			}
		}
	}

	c.node.show(ctx)
	return Step{}
}

// waitsForThreads reports whether a change has to wait, as the kernel gives no more
// processes: the change would stop units that cannot be started again, and count
// as bad. The end of that reads the source again.
func (c reconciler) waitsForThreads() bool {
	err := limits.NoThreads(c.node.host.Threads())
	if err == nil {
		return false
	}
	c.node.log.Error("not applied yet", zap.Error(err))
	c.node.state.Faults = c.node.state.Faults.refused(status.NotApplied, Describe(err))
	c.node.alarms.soon(resumeAlarm, retryDelay)
	c.node.alarms.soon(aliveAlarm, 0)
	return true
}

// reportUnreadable logs once why a configuration cannot be read. What it refers
// to may appear later.
func (c reconciler) reportUnreadable(err error) {
	fault := c.node.state.Faults.Desired
	last := c.node.published.last.Error
	if last == nil || last.Problem != fault.Problem {
		c.node.log.Error("the configuration cannot be had", zap.Error(err))
	}
	if !errors.As(err, new(document.Errors)) {
		c.node.alarms.soon(readAlarm, readDelay)
	}
}

// accept does what a new document of the source entails.
func (c reconciler) accept(r Result) {
	if r.Holds.Released != nil {
		c.node.warn("release the source's configuration", r.Holds.Released)
	}
	if len(r.Read.Waits) > 0 {
		c.node.alarms.soon(probeAlarm, probeDelay)
	}
	if notes := r.Read.Desired.Notes; !slices.Equal(notes, c.node.state.Desired.Notes) {
		c.node.state.Desired.Notes = notes
		c.report.notes(notes)
	}
}

// reconcileFor applies what a caller asks for, although it may be held.
func (c reconciler) reconcileFor(request *Request, r Result) (Step, error) {
	if r.Err != nil {
		return Step{}, r.Err
	}

	digest := r.Read.digest()
	if current := c.node.state.Current.Generation; digest == current.Digest {
		request.succeed(control.Outcome{
			Result:     control.Unchanged,
			Generation: current.Name(),
			Digest:     digest,
		})
		c.node.state.Due.Read = true
		return Step{}, nil
	}

	return Step{
		Kind:    Apply,
		Request: request,
		Have:    c.node.state.Current.Generation,
		Hold:    r.Holds.Source,
		Apply: apply.Request{
			Desired: r.Read.Desired,
			Digest:  digest,
			Source:  r.Read.Name,
			Try:     request.Apply.Try,
		},
	}, nil
}
