package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/plan"
)

// progress is what has been done of a change in this boot. It is in /run, as
// another boot starts with the new files.
type progress struct {
	To     string `json:"to"`
	BootID string `json:"bootID"`
	// Done lists the unit actions that are finished, as "restart foo.service".
	Done []string `json:"done,omitempty"`
	// All says that there is nothing left to do.
	All bool `json:"all,omitempty"`
}

const progressName = "run/loam/progress.json"

func doneName(a plan.Action) string { return string(a.Verb) + " " + a.Unit }

// progressOf reads how far the change j is. One that cannot be read is as good
// as none: an action that is done again does no harm.
func (e *Executor) progressOf(j generation.Journal) progress {
	var p progress
	text, err := e.Node.Root().ReadFile(progressName)
	if err != nil || json.Unmarshal(text, &p) != nil || p.To != j.To || p.BootID != e.BootID {
		return progress{To: j.To, BootID: e.BootID}
	}
	return p
}

func (e *Executor) writeProgress(p progress) error {
	text, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("write the progress: %w", err)
	}
	return e.Node.WriteVolatile(progressName, text, 0o644)
}

// act does the actions, a stage at a time and those of a stage at once, and
// keeps which are done: those are left out. It goes on after an action that did
// not succeed and returns the errors by unit.
func (e *Executor) act(
	ctx context.Context, actions []plan.Action, j generation.Journal,
) map[string]error {
	failed := map[string]error{}
	p := e.progressOf(j)
	for _, stage := range stages(actions) {
		stage = slices.DeleteFunc(stage, func(a plan.Action) bool {
			return slices.Contains(p.Done, doneName(a))
		})
		if len(stage) > 0 && ctx.Err() == nil {
			maps.Copy(failed, e.stage(ctx, stage, &p))
		}
	}
	return failed
}

// actedAll notes that there is nothing left to do of the change j.
func (e *Executor) actedAll(j generation.Journal) error {
	p := e.progressOf(j)
	p.All = true
	return e.writeProgress(p)
}

// stages are the actions by stage, those that systemd does by itself left out.
// In each, what is started comes after the rest: a restart of what it requires
// would take it along, and with it what is part of it. Last, what systemd
// restarts by itself is started, which is nothing to do for a unit that is up:
// as it reads its units, systemd may stop one that is bound to what is still to
// come, and what that takes along is then not restarted with it.
func stages(actions []plan.Action) [][]plan.Action {
	var all [][]plan.Action
	var starts, last []plan.Action
	stage := -1
	for _, a := range actions {
		if a.By != "" {
			if a.Verb == plan.Restart {
				last = append(last, plan.Action{Unit: a.Unit, Verb: plan.Start})
			}
			continue
		}

		if a.Stage() != stage {
			stage = a.Stage()
			all = append(all, starts, nil)
			starts = nil
		}

		if a.Verb == plan.Start {
			starts = append(starts, a)
			continue
		}

		all[len(all)-1] = append(all[len(all)-1], a)
	}

	return append(all, starts, last)
}

// stage does actions at once, and keeps that they are done.
func (e *Executor) stage(ctx context.Context, actions []plan.Action, p *progress) map[string]error {
	failed := map[string]error{}
	for _, r := range e.together(ctx, actions) {
		if r.err != nil {
			failed[r.action.Unit] = r.err
		}
		if errors.Is(r.err, context.Canceled) {
			continue // The agent is ending, or the next change has come: it asks again.
		}
		p.Done = append(p.Done, doneName(r.action))
	}

	// What is done is not asked for again, so what has failed is noted before.
	if err := e.oweAtOnce(p.To, failed); err != nil {
		failed[""] = err
		return failed
	}

	if err := e.writeProgress(*p); err != nil {
		failed[""] = err
	}

	return failed
}

// result is what came of one action.
type result struct {
	action plan.Action
	err    error
}

// together asks systemd for everything at once, so that systemd orders the jobs
// as the units say, and waits for all of it.
func (e *Executor) together(ctx context.Context, actions []plan.Action) []result {
	ctx, cancel := context.WithTimeout(ctx, e.JobWait)
	defer cancel()

	results := make(chan result)
	for _, a := range actions {
		go func() { results <- result{a, e.do(ctx, a)} }()
	}

	var all []result
	for range actions {
		all = append(all, <-results)
	}

	return all
}

func (e *Executor) do(ctx context.Context, a plan.Action) error {
	switch a.Verb {
	case plan.Stop:
		return e.Units.Stop(ctx, a.Unit)
	case plan.Reload:
		return e.Units.ReloadUnit(ctx, a.Unit)
	case plan.Start:
		e.Units.ResetFailed(ctx, a.Unit)
		return e.Units.Start(ctx, a.Unit)
	}
	e.Units.ResetFailed(ctx, a.Unit)
	return e.Units.Restart(ctx, a.Unit)
}

// joined is all errors as one, in the order of the units.
func joined(failed map[string]error) error {
	var all []error
	for _, name := range slices.Sorted(maps.Keys(failed)) {
		all = append(all, failed[name])
	}
	return errors.Join(all...)
}
