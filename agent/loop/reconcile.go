package loop

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
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
		if l.applies() {
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
	fault := l.state.Faults.Desired
	if l.shown.Error == nil || l.shown.Error.Problem != fault.Problem {
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
	l.reportNotes(r.Desired.Notes)
}

// applies reports whether what the source gave is to be applied.
func (l *Loop) applies() bool {
	held, err := l.held()
	var yes bool
	l.state, yes = l.state.applies(held, err)
	return yes
}

// held returns why what the source gave is not to be applied: all of it, or
// without what waits. It is nil if neither is held.
func (l *Loop) held() (*apply.Held, error) {
	for _, digest := range []string{l.state.Desired.FullDigest, l.state.Desired.AppliedDigest} {
		held, is, err := l.Engine.Held(digest)
		if err != nil {
			return nil, err
		}
		if is {
			return &held, nil
		}
	}
	return nil, nil
}

// release lets a configuration of the source count again, should the source say it
// once more, if nothing but an operator's request held it.
func (l *Loop) release(digest string) {
	held, is, err := l.Engine.Held(digest)
	if err == nil && is && held.Operator {
		err = l.Engine.Release(digest)
	}
	if err != nil {
		l.warn("release the source's configuration", err)
	}
}

// reportNotes tells operators what they should know of the document, once.
func (l *Loop) reportNotes(notes []config.Note) {
	if slices.Equal(notes, l.state.Desired.Notes) {
		return
	}
	l.state.Desired.Notes = notes

	byReason := map[string][]config.Note{}
	for _, n := range notes {
		l.Log.Warn("the document is followed, but not to the letter",
			zap.String("reason", n.Reason),
			zap.Stringer("note", n),
			zap.String("hint", n.Hint))
		byReason[n.Reason] = append(byReason[n.Reason], n)
	}
	for _, reason := range slices.Sorted(maps.Keys(byReason)) {
		l.event(reason, summary(byReason[reason]))
	}
}

// summary is the first of some notes, and how many more there are.
func summary(notes []config.Note) string {
	text := notes[0].String()
	if more := len(notes) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more: loam status)", more)
	}
	return text
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
	step.Hold, err = l.holdSource(step.Apply)
	if err != nil {
		return err
	}
	l.begin(ctx, step)
	return nil
}

// holdSource keeps what the source said from replacing what an operator applies:
// it counts again when it changes. It returns the digest that it has held, empty if
// there was nothing to hold.
func (l *Loop) holdSource(r apply.Request) (string, error) {
	desired := l.state.Desired
	if desired.AppliedDigest == "" || desired.AppliedDigest == r.Desired.Digest() {
		return "", nil
	}
	_, was, err := l.Engine.Held(desired.FullDigest)
	if err != nil || was {
		return "", err
	}

	held := apply.Held{
		Digest:   desired.FullDigest,
		Why:      "replaced by `loam apply " + r.Source + "`",
		Operator: true,
	}
	return desired.FullDigest, l.Engine.Hold(held)
}
