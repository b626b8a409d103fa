package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/plan"
)

// owed are the units of a generation whose start or restart has not succeeded
// yet. It is durable: what a change asked for is not done because the machine
// restarted.
type owed struct {
	Generation string   `json:"generation"`
	Units      []string `json:"units"`
}

const owedName = "owed.json"

// Owed lists the units of the current generation that systemd could not start
// or restart when they changed, and that have not come up since: see Retry.
// Without any, a configuration is applied.
func (e *Executor) Owed() ([]string, error) {
	if err := e.readOwed(); err != nil || len(e.owed.Units) == 0 {
		return nil, err
	}
	current, ok, err := e.Current()
	if err != nil || !ok {
		return nil, err
	}
	return e.owed.of(current), nil
}

// of are the units that are still to be up. A unit that the configuration wants
// stopped is owed no start, and one that it does not list is the image's.
func (o owed) of(m generation.Manifest) []string {
	if o.Generation != m.Name() {
		return nil
	}

	var names []string
	for _, u := range m.Units {
		if !u.Stopped && slices.Contains(o.Units, u.Name) {
			names = append(names, u.Name)
		}
	}
	return names
}

// retryWait is how long Retry waits for the jobs that it has started: it is the
// one thing that changes the node meanwhile.
const retryWait = 10 * time.Second

// Retry starts once more what is owed, and returns what still is, with why. A
// unit that has come up by itself is owed no more. One whose start takes longer
// than retryWait goes on, and is still owed until it is up.
func (e *Executor) Retry(ctx context.Context) ([]string, error) {
	names, err := e.Owed()
	if err != nil || len(names) == 0 {
		return nil, err
	}

	states, err := e.Units.Show(ctx, names)
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
	o := owed{Generation: e.owed.Generation}
	failed := map[string]error{}
	for _, r := range e.together(wait, starts) {
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
	err = e.writeOwed(o)
	return o.Units, errors.Join(joined(failed), err)
}

// owe notes the units that systemd could not start for the generation called
// name.
func (e *Executor) owe(name string, failed map[string]error) error {
	if err := e.readOwed(); err != nil {
		return err
	}

	o := owed{Generation: name, Units: owing(failed)}
	if e.owed.Generation == name { // The rest of a change that was cut off.
		o.Units = append(o.Units, e.owed.Units...)
		slices.Sort(o.Units)
		o.Units = slices.Compact(o.Units)
	}
	return e.writeOwed(o)
}

// oweAtOnce is owe in the middle of the change to the generation called name.
// Of another generation, nothing is owed: it has been dropped.
func (e *Executor) oweAtOnce(name string, failed map[string]error) error {
	if len(owing(failed)) == 0 {
		return nil
	}
	current, ok, err := e.Current()
	if err != nil || !ok || current.Name() != name {
		return err
	}
	return e.owe(name, failed)
}

// owing are the units whose job has failed. One that takes long goes on, and
// one that the end of the agent has cut off is asked for again.
func owing(failed map[string]error) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(failed)) {
		goesOn := errors.Is(failed[name], context.DeadlineExceeded) ||
			errors.Is(failed[name], context.Canceled)
		if name != "" && !goesOn {
			names = append(names, name)
		}
	}
	return names
}

// readOwed reads what is owed, once. A file that cannot be decoded owes
// nothing: the units that are down can be seen.
func (e *Executor) readOwed() error {
	if e.owed != nil {
		return nil
	}

	text, err := fs.ReadFile(e.State.Root().FS(), owedName)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the units that are owed: %w", err)
	}

	var o owed
	if json.Unmarshal(text, &o) != nil {
		o = owed{}
	}

	e.owed = &o
	return nil
}

// writeOwed replaces what is owed. Where nothing is, there is no file.
func (e *Executor) writeOwed(o owed) error {
	was := *e.owed
	e.owed = &o
	if len(o.Units) == 0 && len(was.Units) == 0 {
		return nil
	}
	if len(o.Units) == 0 {
		return e.State.Remove(owedName)
	}

	text, err := json.Marshal(o)
	if err == nil {
		_, err = e.State.WriteFile(owedName, append(text, '\n'), 0o644)
	}

	if err != nil {
		return fmt.Errorf("write the units that are owed: %w", err)
	}

	return nil
}
