package loop

import (
	"context"
	"errors"
	"slices"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/source"
)

// mergeRead takes in a configuration that was read.
func (l *Loop) mergeRead(ctx context.Context, before State, step Step, r Result) {
	if step.Request == nil {
		l.reconcile(ctx, before, r)
		return
	}
	if err := l.reconcileFor(ctx, step.Request, r); err != nil {
		step.Request.fail(err)
	}
}

// reconcile makes the node what the source says.
func (l *Loop) reconcile(ctx context.Context, before State, r Result) {
	switch {
	case errors.Is(r.Err, source.ErrAbsent):
		l.Log.Info("no configuration at the source: the node keeps what it has", zap.Error(r.Err))
	case r.Err != nil:
		l.reportUnreadable(r.Err)
	default:
		l.acceptReading(before, r.Read)
		held, err := heldOf(l.Engine, l.state.Desired)
		var applies bool
		l.state, applies = l.state.applies(held, err)
		if applies {
			l.begin(ctx, Step{
				Kind:  Apply,
				Apply: apply.Request{Desired: r.Read.Desired, Source: r.Read.Name},
			})
			return
		}
	}
	l.show(ctx)
}

// reportUnreadable logs, once, why a configuration cannot be had. What it refers to
// may come.
func (l *Loop) reportUnreadable(err error) {
	fault, last := l.state.Faults.Desired, l.published.last.Error
	if last == nil || last.Problem != fault.Problem {
		l.Log.Error("the configuration cannot be had", zap.Error(err))
	}
	if !errors.As(err, new(document.Errors)) {
		l.alarms.soon(readAlarm, readDelay)
	}
}

// acceptReading does what a new document of the source entails.
func (l *Loop) acceptReading(before State, r Reading) {
	if last := before.Desired.FullDigest; last != "" && last != r.FullDigest {
		l.release(last)
	}
	if len(r.Waits) > 0 {
		l.alarms.soon(probeAlarm, probeDelay)
	}
	if notes := r.Desired.Notes; !slices.Equal(notes, l.state.Desired.Notes) {
		l.state.Desired.Notes = notes
		l.reporter().notes(notes)
	}
}

// release lets a configuration of the source count again that an operator's
// request held.
func (l *Loop) release(digest string) {
	if err := releaseHold(l.Engine, digest); err != nil {
		l.warn("release the source's configuration", err)
	}
}

// reconcileFor applies what a caller asks for, although it may be held.
func (l *Loop) reconcileFor(ctx context.Context, request *Request, r Result) error {
	if r.Err != nil {
		return r.Err
	}
	digest := r.Read.Desired.Digest()
	err := errors.Join(l.Engine.Release(digest), l.Engine.Release(r.Read.FullDigest))
	if err != nil {
		return err
	}

	if current := l.state.Current.Generation; digest == current.Digest {
		request.succeed(control.Outcome{
			Result:     control.Unchanged,
			Generation: current.Name(),
			Digest:     digest,
		})
		l.state.Due.Read = true
		return nil
	}

	step := Step{
		Kind:    Apply,
		Request: request,
		Apply: apply.Request{
			Desired: r.Read.Desired,
			Source:  r.Read.Name,
			Try:     request.Apply.Try,
		},
	}
	step.Hold, err = holdSource(l.Engine, l.state.Desired, step.Apply)
	if err != nil {
		return err
	}
	l.begin(ctx, step)
	return nil
}
