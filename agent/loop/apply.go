package loop

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/status"
)

// askApply asks for a document to be applied.
type askApply control.ApplyRequest

// Apply implements [control.Agent].
func (q Requests) Apply(ctx context.Context, r control.ApplyRequest) (control.Outcome, error) {
	got := q.send(ctx, askApply(r), nil)
	return got.outcome, got.err
}

// admit has the document read first.
func (a askApply) admit(s State) (Step, error) {
	if s.Change.trying() {
		return Step{}, errTrying(s)
	}
	return Step{
		Kind:     Read,
		Have:     s.Current.Generation,
		Desired:  s.Desired,
		Document: a.document(),
	}, nil
}

// document is the document to apply, nil for the source's.
func (a askApply) document() *source.Document {
	if a.Document == "" {
		return nil
	}
	return &source.Document{Name: a.Name, Text: []byte(a.Document)}
}

// Apply a configuration.
var Apply = &Kind{
	name:    "apply",
	begin:   beginApply,
	perform: performApply,
	after:   afterApply,
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

func performApply(ctx context.Context, w worker, step Step) (r Result) {
	if w.cluster != nil {
		w.cluster.Prepare(ctx, step.Apply.Desired)
	}
	r.Generation, r.Err = w.engine.Apply(ctx, step.Apply)
	r.Node = w.observe(step)
	return r
}

// afterApply takes in an apply. A unit that did not come up, or not yet, is a
// fact about the node, which the verdict follows up.
func afterApply(s State, step Step, r Result, _ time.Duration) (State, []Effect) {
	s.Change.Applying = false
	if r.changedNothing() {
		return afterRefusedApply(s, step, r)
	}

	// The files that wait belong to the source's document. A caller has
	// replaced that.
	if step.Request != nil {
		s.Facts.Waits = nil
	}
	s, replaced := await(s, step.Request)
	s, change := changed(s, r)
	return s, append(replaced, change...)
}

// afterRefusedApply takes in an apply that has changed nothing. What the kernel
// refused may succeed later. A wrong configuration stays wrong until it changes.
func afterRefusedApply(s State, step Step, r Result) (State, []Effect) {
	effects := []Effect{failure("apply", zap.Error(r.Err))}
	if step.Request == nil {
		s.Faults = s.Faults.refused(status.NotApplied, Describe(r.Err))
	}
	effects = append(effects, fail(step.Request, r.Err)...)
	effects = append(effects, Unprepare{})
	if step.Hold != "" {
		effects = append(effects, Release{Digest: step.Hold})
	}
	if step.Request != nil || apply.Transient(r.Err) {
		effects = append(effects,
			SetAlarm{Which: resumeAlarm, In: retryDelay},
			SetAlarm{Which: aliveAlarm}) // The status says what the kernel lacks.
	}

	s, found := nodeObserved(s, r.Node)
	effects = append(effects, found...)
	return s, append(effects, ObserveUnits, Watch{})
}

// changedNothing reports whether an apply was refused before it changed the
// node.
func (r Result) changedNothing() bool {
	return r.Err != nil && r.Generation.Name() == "" && !errors.Is(r.Err, apply.ErrUnfinished)
}
