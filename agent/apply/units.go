package apply

import (
	"context"
	"errors"
	"slices"

	"github.com/loam-os/loam/agent/plan"
)

// act does the actions, a stage at a time and those of a stage at once, and
// journals each. Those that j has as done are left out. It goes on after an
// action that did not succeed and returns all errors.
func (e *Executor) act(ctx context.Context, actions []plan.Action, j journal) error {
	var failed []error
	for len(actions) > 0 {
		end := slices.IndexFunc(actions, func(a plan.Action) bool { return a.Stage() != actions[0].Stage() })
		if end < 0 {
			end = len(actions)
		}
		stage := slices.DeleteFunc(slices.Clone(actions[:end]), func(a plan.Action) bool {
			return slices.Contains(j.Done, doneName(a))
		})
		actions = actions[end:]
		failed = append(failed, e.stage(ctx, stage, &j))
	}
	return errors.Join(failed...)
}

// stage asks systemd for everything at once, so that systemd orders the jobs
// as the units say, and waits for all of it.
func (e *Executor) stage(ctx context.Context, actions []plan.Action, j *journal) error {
	ctx, cancel := context.WithTimeout(ctx, e.JobWait)
	defer cancel()
	type result struct {
		action plan.Action
		err    error
	}
	results := make(chan result)
	for _, a := range actions {
		go func() { results <- result{a, e.do(ctx, a)} }()
	}
	var failed []error
	for range actions {
		r := <-results
		failed = append(failed, r.err)
		if errors.Is(r.err, context.Canceled) {
			continue // The agent is ending: the next one asks again.
		}
		j.Done = append(j.Done, doneName(r.action))
		failed = append(failed, e.writeJournal(*j))
	}
	return errors.Join(failed...)
}

func (e *Executor) do(ctx context.Context, a plan.Action) error {
	switch a.Verb {
	case plan.Stop:
		return e.Units.Stop(ctx, a.Unit)
	case plan.Start:
		return e.Units.Start(ctx, a.Unit)
	}
	return e.Units.Restart(ctx, a.Unit)
}
