package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/agent/plan"
)

// units makes systemd do what a plan says, and records how far it is.
type units struct {
	systemd Units
	// node is the running root directory, for the progress in /run.
	node   *durable.Dir
	bootID string
	// wait is how long one stage may take, limit how long all of them, unless
	// the last ones need a moment more. A stage whose units ask for longer
	// ([health.Patience]) adds that to both.
	wait, limit time.Duration
	uptime      func() time.Duration
	owed        owedUnits
	// reload is set while systemd has not read a repaired unit file yet.
	reload *bool
}

// progress says how far a change is in this boot. It is in /run, because the
// next boot starts with the new files.
type progress struct {
	To     string `json:"to"`
	BootID string `json:"bootID"`
	// Done lists the unit actions that are finished, as "restart foo.service".
	Done []string `json:"done,omitempty"`
	// All is set when nothing is left to do.
	All bool `json:"all,omitempty"`
}

const progressName = "run/loam/progress.json"

func doneName(a plan.Action) string { return string(a.Verb) + " " + a.Unit }

// progressOf reads how far the change j is. A file that cannot be read counts
// as no progress: doing an action again does no harm.
func (u units) progressOf(j generation.Journal) progress {
	var p progress
	_, err := durable.ReadJSON(u.node.Root().FS(), progressName, &p)
	if err != nil || p.To != j.To || p.BootID != u.bootID {
		return progress{To: j.To, BootID: u.bootID}
	}
	return p
}

func (u units) writeProgress(p progress) error {
	return u.node.WriteVolatileJSON(progressName, p, 0o644)
}

// run does the actions stage by stage, and records the ones it has done, so
// that it skips them after a cut. It goes on after an action that fails, and
// returns the errors by unit, and when the jobs that have not ended were asked
// for.
func (u units) run(
	ctx context.Context, actions []plan.Action, j generation.Journal,
) (failed map[string]error, hung map[string]time.Duration) {
	failed = map[string]error{}
	hung = map[string]time.Duration{}
	p := u.progressOf(j)
	began, limit := u.uptime(), u.limit

	for _, stage := range stages(actions) {
		stage = slices.DeleteFunc(stage, func(a plan.Action) bool {
			return slices.Contains(p.Done, doneName(a))
		})
		if len(stage) == 0 || ctx.Err() != nil {
			continue
		}

		asked := u.uptime()
		wait := u.patience(ctx, stage)
		limit += wait - u.wait
		wait = min(wait, max(limit-(asked-began), retryWait))
		errs := u.stage(ctx, wait, stage, &p)
		maps.Copy(failed, errs)
		for name, err := range errs {
			if errors.Is(err, context.DeadlineExceeded) {
				hung[name] = asked
			}
		}
	}

	return failed, hung
}

// runAlone is run without a journal.
func (u units) runAlone(ctx context.Context, actions []plan.Action) map[string]error {
	failed := map[string]error{}
	p := progress{BootID: u.bootID}
	for _, stage := range stages(actions) {
		if len(stage) > 0 && ctx.Err() == nil {
			maps.Copy(failed, u.stage(ctx, u.patience(ctx, stage), stage, &p))
		}
	}
	return failed
}

// patience is how long to wait for a stage. If systemd does not answer, neither
// will the jobs.
func (u units) patience(ctx context.Context, actions []plan.Action) time.Duration {
	var names []string
	for _, a := range actions {
		if a.Verb != plan.Stop {
			names = append(names, a.Unit)
		}
	}

	states, err := u.systemd.Show(ctx, names)
	if err != nil {
		return u.wait
	}

	wait := u.wait
	for _, s := range states {
		wait = max(wait, health.Patience(u.wait, s))
	}
	return wait
}

// finish records that nothing is left to do for the change j.
func (u units) finish(j generation.Journal) error {
	p := u.progressOf(j)
	p.All = true
	return u.writeProgress(p)
}

// stages groups the actions by stage, without those that systemd does by
// itself. In each stage, starts come after the rest: a restart of a unit that
// they require would stop them, and with them their parts. The last stage
// starts what systemd restarts by itself, which does nothing for a unit that is
// up. It is needed because systemd may stop a unit while it reads its files, if
// the unit is bound to another that is still to come, and does not restart its
// dependents then.
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

// stage does the actions at once, and records the ones it has done.
func (u units) stage(
	ctx context.Context, wait time.Duration, actions []plan.Action, p *progress,
) map[string]error {
	failed := map[string]error{}
	for _, r := range u.together(ctx, wait, actions) {
		if r.err != nil {
			failed[r.action.Unit] = r.err
		}
		if errors.Is(r.err, context.Canceled) {
			continue // The agent is ending, or the next change has come: it asks again.
		}
		p.Done = append(p.Done, doneName(r.action))
	}

	// A done action is not asked for again, so a failure must be on disk
	// before.
	if err := u.owed.addDuring(p.To, failed); err != nil {
		failed[""] = err
		return failed
	}

	if err := u.writeProgress(*p); err != nil {
		failed[""] = err
	}

	return failed
}

// result is the outcome of one action.
type result struct {
	action plan.Action
	err    error
}

// together asks systemd for all actions at once, so that systemd orders the
// jobs as the units say, and waits for all of them, or for as long as wait.
func (u units) together(
	ctx context.Context, wait time.Duration, actions []plan.Action,
) []result {
	ctx, cancel := context.WithTimeout(ctx, wait)
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

// retryWait limits how long Retry waits for its jobs, because nothing else can
// change the node in that time. A stage gets the same time if the stages before
// it have used up the time of the change.
const retryWait = 10 * time.Second

// retry starts the owed units again; see [Executor.Retry].
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

	o := owed{Generation: u.owed.cached.Generation}
	failed := map[string]error{}
	for _, r := range u.together(ctx, min(u.wait, retryWait), starts) {
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

// joined returns all errors as one, in the order of the units.
func joined(failed map[string]error) error {
	var all []error
	for _, name := range slices.Sorted(maps.Keys(failed)) {
		all = append(all, failed[name])
	}
	return errors.Join(all...)
}

// reloadFor makes systemd read its units again if one of the paths is a unit
// file.
func (u units) reloadFor(ctx context.Context, repaired []string) error {
	if slices.ContainsFunc(repaired, func(p string) bool {
		return strings.HasPrefix(p, "/etc/systemd/system/")
	}) {
		*u.reload = true
	}
	return u.reloadPending(ctx)
}

// reloadPending makes systemd read its units again if a repair needs it.
func (u units) reloadPending(ctx context.Context) error {
	if !*u.reload {
		return nil
	}
	err := u.systemd.Reload(ctx)
	*u.reload = err != nil
	return err
}
