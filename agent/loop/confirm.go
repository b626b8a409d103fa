package loop

import (
	"context"
	"time"

	"github.com/loam-os/loam/agent/control"
)

// askConfirm asks to keep the change that is on trial.
type askConfirm struct{}

// Confirm implements [control.Agent].
func (q Requests) Confirm(ctx context.Context) (control.Outcome, error) {
	got := q.send(ctx, askConfirm{}, nil)
	return got.outcome, got.err
}

func (askConfirm) admit(s State) (Step, error) {
	return Step{Kind: Confirm, Have: s.Current.Generation}, nil
}

// Confirm the change on trial.
var Confirm = &Kind{
	name:    "confirm",
	perform: performConfirm,
	atOnce:  true,
	after:   afterConfirm,
}

func performConfirm(_ context.Context, w worker, step Step) (r Result) {
	r.Generation, r.Err = w.engine.Confirm()
	r.Node = w.observe(step)
	return r
}

// afterConfirm takes in that the change on trial stays.
func afterConfirm(s State, step Step, r Result, _ time.Duration) (State, []Effect) {
	if r.Err != nil {
		return s, fail(step.Request, r.Err)
	}

	s, effects := nodeObserved(s, r.Node)
	effects = append(effects, ObserveUnits, Watch{})
	return s, append(effects, succeed(step.Request, control.Outcome{
		Result:     control.Confirmed,
		Generation: r.Generation.Name(),
		Digest:     r.Generation.Digest,
	})...)
}
