// Package apply carries out plans: it writes a generation, flips to it, brings
// its files about on the node, and has systemd do what the plan says, with a
// journal from which the next start goes on where this one was cut off.
package apply

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/plan"
	"github.com/loam-os/loam/agent/unit"
)

// Units is what the executor asks of systemd. Start, Stop and Restart return
// when the job is finished.
type Units interface {
	Reload(ctx context.Context) error
	Start(ctx context.Context, name string) error
	Stop(ctx context.Context, name string) error
	Restart(ctx context.Context, name string) error
	Show(ctx context.Context, names []string) ([]unit.State, error)
}

// Executor changes one node. One goroutine uses it.
type Executor struct {
	// State is /var/lib/loam, Node the running root directory, Image the
	// image's own, without anything mounted over it.
	State *durable.Dir
	Node  *durable.Dir
	Image *os.Root
	Units Units
	// OSVersion is the running image's IMAGE_VERSION, BootID the kernel's id of
	// this boot.
	OSVersion string
	BootID    string
	// reload says that a repair is on disk which systemd has not read yet.
	reload bool
	// JobWait is how long one stage of units may take; a job that takes longer
	// goes on and counts as an error.
	JobWait time.Duration
	// Now is the wall clock, for the history.
	Now func() time.Time
}

// kept is how many generations stay on disk besides the current ones.
const kept = 5

// ErrUnfinished says that the node is between two generations: the journal
// stays, and Resume completes what is left.
var ErrUnfinished = errors.New("apply is unfinished")

// Current is the generation the node runs; false if it has none.
func (e *Executor) Current() (generation.Manifest, bool, error) {
	return e.store().Current(e.OSVersion)
}

// Plan says what Apply would do. It changes nothing.
func (e *Executor) Plan(ctx context.Context, d config.Desired, source string) (plan.Plan, error) {
	change, err := e.prepare(ctx, d, source)
	return change.plan, err
}

// Apply makes d the node's configuration. An error before the flip has changed
// nothing on the node; an error in bringing files about has been undone. A
// unit that systemd could not start, stop or restart is an error too, after all
// else is done: the generation stays, and *unit.JobError tells which unit. An
// apply that was cut off before is completed first.
func (e *Executor) Apply(ctx context.Context, d config.Desired, source string) (generation.Manifest, error) {
	if err := e.settle(ctx); err != nil {
		return generation.Manifest{}, err
	}
	change, err := e.prepare(ctx, d, source)
	if err != nil {
		return generation.Manifest{}, err
	}
	if err := e.store().Write(change.want, change.content); err != nil {
		return generation.Manifest{}, err
	}
	j := journal{From: change.have.Name(), To: change.want.Name(), BootID: e.BootID}
	if err := e.writeJournal(j); err != nil {
		return generation.Manifest{}, err
	}
	if err := e.store().Activate(e.OSVersion, change.want.Name()); err != nil {
		return generation.Manifest{}, errors.Join(err, e.revert(change))
	}
	if err := e.place(change.have, change.want); err != nil {
		return generation.Manifest{}, errors.Join(err, e.revert(change))
	}
	return change.want, e.finish(ctx, change, j)
}

// change is one step from a generation to the next.
type change struct {
	have, want generation.Manifest
	content    map[string][]byte
	plan       plan.Plan
}

// prepare observes and decides; it changes nothing.
func (e *Executor) prepare(ctx context.Context, d config.Desired, source string) (change, error) {
	vendor, err := generation.ReadVendor(e.Image, d)
	if err != nil {
		return change{}, err
	}
	tree, err := generation.Expand(d, vendor)
	if err != nil {
		return change{}, err
	}
	have, _, err := e.Current()
	if err != nil && !errors.Is(err, generation.ErrTorn) {
		return change{}, err
	}
	number, err := e.store().Next()
	if err != nil {
		return change{}, err
	}
	dirs, err := generation.MissingDirs(e.Node.Root(), tree.Entries, have)
	if err != nil {
		return change{}, err
	}
	want := generation.Manifest{
		Number: number, Digest: d.Digest(), OSVersion: e.OSVersion, Source: source,
		Entries: tree.Entries, Units: tree.Units, Dirs: dirs,
	}
	p, err := e.diff(ctx, have, want)
	return change{have, want, tree.Content, p}, err
}

func (e *Executor) diff(ctx context.Context, have, want generation.Manifest) (plan.Plan, error) {
	states, err := e.Units.Show(ctx, plan.Names(have, want))
	if err != nil {
		return plan.Plan{}, fmt.Errorf("observe units: %w", err)
	}
	observed := plan.Observed{}
	for _, s := range states {
		observed[s.Name] = s
	}
	return plan.Diff(have, want, observed), nil
}

// revert goes back to the generation that a change began with. If it cannot,
// the journal stays and the next start tries again.
func (e *Executor) revert(c change) error {
	undo := func() error {
		if c.have.Name() == "" {
			return e.store().Deactivate(e.OSVersion)
		}
		return e.store().Activate(e.OSVersion, c.have.Name())
	}
	if err := undo(); err != nil {
		return fmt.Errorf("go back: %w: %w", ErrUnfinished, err)
	}
	if err := e.place(c.want, c.have); err != nil {
		return fmt.Errorf("go back: %w: %w", ErrUnfinished, err)
	}
	return unfinished(e.removeJournal())
}

// unfinished marks err, if it is one, as ErrUnfinished.
func unfinished(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrUnfinished, err)
}

// finish does what comes after the files are in place.
func (e *Executor) finish(ctx context.Context, c change, j journal) error {
	if c.plan.Reload {
		if err := e.Units.Reload(ctx); err != nil {
			return unfinished(err)
		}
	}
	failed := e.act(ctx, c.plan.Units, j)
	if err := ctx.Err(); err != nil {
		return errors.Join(failed, unfinished(err)) // Cut off, not done: the journal stays.
	}
	if err := e.record(c.want, failed); err != nil {
		return errors.Join(failed, unfinished(err))
	}
	if err := e.removeJournal(); err != nil {
		return errors.Join(failed, unfinished(err))
	}
	return errors.Join(failed, e.store().Prune(kept))
}

func (e *Executor) store() *generation.Store { return generation.Open(e.State) }
