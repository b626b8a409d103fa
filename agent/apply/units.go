package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/plan"
)

// units has systemd do what a plan says, and keeps how far it is.
type units struct {
	systemd Units
	// node is the running root directory, for the progress in /run.
	node   *durable.Dir
	bootID string
	// wait is how long one stage may take.
	wait time.Duration
	owed owedUnits
	// reload says that a repair is on disk which systemd has not read yet.
	reload *bool
}

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
func (u units) progressOf(j generation.Journal) progress {
	var p progress
	text, err := u.node.Root().ReadFile(progressName)
	if err != nil || json.Unmarshal(text, &p) != nil || p.To != j.To || p.BootID != u.bootID {
		return progress{To: j.To, BootID: u.bootID}
	}
	return p
}

func (u units) writeProgress(p progress) error {
	text, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("write the progress: %w", err)
	}
	return u.node.WriteVolatile(progressName, text, 0o644)
}

// run does the actions, a stage at a time and those of a stage at once, and
// keeps which are done: those are left out. It goes on after an action that did
// not succeed and returns the errors by unit.
func (u units) run(
	ctx context.Context, actions []plan.Action, j generation.Journal,
) map[string]error {
	failed := map[string]error{}
	p := u.progressOf(j)
	for _, stage := range stages(actions) {
		stage = slices.DeleteFunc(stage, func(a plan.Action) bool {
			return slices.Contains(p.Done, doneName(a))
		})
		if len(stage) > 0 && ctx.Err() == nil {
			maps.Copy(failed, u.stage(ctx, stage, &p))
		}
	}
	return failed
}

// runAlone is act without a journal.
func (u units) runAlone(ctx context.Context, actions []plan.Action) map[string]error {
	failed := map[string]error{}
	p := progress{BootID: u.bootID}
	for _, stage := range stages(actions) {
		if len(stage) > 0 && ctx.Err() == nil {
			maps.Copy(failed, u.stage(ctx, stage, &p))
		}
	}
	return failed
}

// finish notes that there is nothing left to do of the change j.
func (u units) finish(j generation.Journal) error {
	p := u.progressOf(j)
	p.All = true
	return u.writeProgress(p)
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
func (u units) stage(ctx context.Context, actions []plan.Action, p *progress) map[string]error {
	failed := map[string]error{}
	for _, r := range u.together(ctx, actions) {
		if r.err != nil {
			failed[r.action.Unit] = r.err
		}
		if errors.Is(r.err, context.Canceled) {
			continue // The agent is ending, or the next change has come: it asks again.
		}
		p.Done = append(p.Done, doneName(r.action))
	}

	// What is done is not asked for again, so what has failed is noted before.
	if err := u.owed.addDuring(p.To, failed); err != nil {
		failed[""] = err
		return failed
	}

	if err := u.writeProgress(*p); err != nil {
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
func (u units) together(ctx context.Context, actions []plan.Action) []result {
	ctx, cancel := context.WithTimeout(ctx, u.wait)
	defer cancel()

	results := make(chan result)
	for _, a := range actions {
		go func() { results <- result{a, u.do(ctx, a)} }()
	}

	var all []result
	for range actions {
		all = append(all, <-results)
	}

	return all
}

func (u units) do(ctx context.Context, a plan.Action) error {
	switch a.Verb {
	case plan.Stop:
		return u.systemd.Stop(ctx, a.Unit)
	case plan.Reload:
		return u.systemd.ReloadUnit(ctx, a.Unit)
	case plan.Start:
		u.systemd.ResetFailed(ctx, a.Unit)
		return u.systemd.Start(ctx, a.Unit)
	}
	u.systemd.ResetFailed(ctx, a.Unit)
	return u.systemd.Restart(ctx, a.Unit)
}

// retryWait is how long Retry waits for the jobs that it has started: it is the
// one thing that changes the node meanwhile.
const retryWait = 10 * time.Second

// retry starts once more what is owed. See [Executor.Retry].
func (u units) retry(ctx context.Context) ([]string, error) {
	names, err := u.owed.list()
	if err != nil || len(names) == 0 {
		return nil, err
	}

	states, err := u.systemd.Show(ctx, names)
	if err != nil {
		return names, fmt.Errorf("observe units: %w", err)
	}

	var starts []plan.Action
	for _, s := range states {
		if !s.Started() {
			starts = append(starts, plan.Action{Unit: s.Name, Verb: plan.Start})
		}
	}

	wait, cancel := context.WithTimeout(ctx, retryWait)
	defer cancel()
	o := owed{Generation: u.owed.cached.Generation}
	failed := map[string]error{}
	for _, r := range u.together(wait, starts) {
		if r.err == nil {
			continue
		}
		o.Units = append(o.Units, r.action.Unit)
		if !errors.Is(r.err, context.DeadlineExceeded) {
			failed[r.action.Unit] = r.err
		}
	}

	if err := ctx.Err(); err != nil {
		return names, err
	}

	slices.Sort(o.Units)
	err = u.owed.write(o)
	return o.Units, errors.Join(joined(failed), err)
}

// joined is all errors as one, in the order of the units.
func joined(failed map[string]error) error {
	var all []error
	for _, name := range slices.Sorted(maps.Keys(failed)) {
		all = append(all, failed[name])
	}
	return errors.Join(all...)
}

// reloadFor has systemd read its units again if one of the paths is of them.
func (u units) reloadFor(ctx context.Context, repaired []string) error {
	if slices.ContainsFunc(repaired, func(p string) bool {
		return strings.HasPrefix(p, "/etc/systemd/system/")
	}) {
		*u.reload = true
	}
	return u.reloadPending(ctx)
}

// reloadPending has systemd read its units if a repair asks for it.
func (u units) reloadPending(ctx context.Context) error {
	if !*u.reload {
		return nil
	}
	err := u.systemd.Reload(ctx)
	*u.reload = err != nil
	return err
}
