package apply

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/agent/plan"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// Units is systemd, as far as the executor uses it. Start, Stop, Restart and
// ReloadUnit return when the job is finished.
type Units interface {
	Observer
	Reload(ctx context.Context) error
	Start(ctx context.Context, name string) error
	Stop(ctx context.Context, name string) error
	Restart(ctx context.Context, name string) error
	ReloadUnit(ctx context.Context, name string) error
	ResetFailed(ctx context.Context, name string)
}

// Executor changes the configuration of one node. It is not safe for concurrent
// use.
type Executor struct {
	// State is /var/lib/loam, Node the running root directory, Image the root
	// directory of the image without anything mounted over it.
	State *durable.Dir
	Node  *durable.Dir
	Image fs.FS
	Units Units

	// OSVersion is the running image's IMAGE_VERSION, BootID the kernel's id of
	// this boot.
	OSVersion string
	BootID    string

	// JobWait limits one stage of units. A job that takes longer goes on in
	// systemd and counts as an error.
	JobWait time.Duration

	// Steady is how long all units must be well before a change is good, Limit
	// how long they may take to get there.
	Steady, Limit time.Duration

	// Now returns the wall clock, for the history. Uptime returns the time
	// since boot.
	Now    func() time.Time
	Uptime func() time.Duration

	opened  *generation.Store
	catalog *generation.Catalog

	// last is the generation that was current when last seen.
	last generation.Manifest
	gate *health.Gate

	owed owed

	// reload is set while systemd has not read a repaired unit file yet.
	reload bool
}

// crowded is the number of generations above which Tidy prunes without waiting
// for a verdict.
const crowded = 16

// ErrUnfinished means that the node is between two generations. The journal
// stays, and Resume does the rest.
var ErrUnfinished = errors.New("apply is unfinished")

// Current returns the generation that the node runs; false if it has none.
func (e *Executor) Current() (generation.Manifest, bool, error) {
	return e.running().current()
}

// Owed lists the units of the current generation that systemd could not start
// or restart when they changed, and that have not come up since: see Retry.
// Without any, a configuration is applied.
func (e *Executor) Owed() ([]string, error) { return e.units().owed.list() }

// Retry starts the owed units again, and returns the ones that are still owed,
// and why. A unit that has come up by itself is no longer owed. A start that
// takes longer than retryWait goes on in systemd, and its unit stays owed until
// it is up.
func (e *Executor) Retry(ctx context.Context) ([]string, error) { return e.units().retry(ctx) }

// Plan returns what Apply would do. It changes nothing.
func (e *Executor) Plan(ctx context.Context, d config.Desired, source string) (plan.Plan, error) {
	return e.planner().Plan(ctx, d, source)
}

// Request is a configuration to apply.
type Request struct {
	Desired config.Desired

	// Digest is the digest of Desired, if the caller has it; making it takes
	// time.
	Digest string

	// Source names the document, for people.
	Source string

	// Try is how long the configuration stays without being confirmed. Zero
	// means for good.
	Try time.Duration
}

func (r Request) digest() string {
	if r.Digest == "" {
		return r.Desired.Digest()
	}
	return r.Digest
}

// ErrNothingBefore means that a change cannot be tried, because the node has no
// earlier configuration to go back to.
var ErrNothingBefore = hint.With(
	fault.With(errors.New("the node has no configuration yet that it could go back to"),
		fault.NothingBefore),
	"apply it without --try",
)

// Apply makes the configuration of r the current generation. It first completes
// a change that was cut off. After an error before the flip, the node is as it
// was. An error in placing files is undone. If systemd cannot start, stop or
// restart a unit, Apply does all the rest and returns a *unit.JobError with the
// name of the unit; the generation stays until Judge and Conclude have decided.
func (e *Executor) Apply(ctx context.Context, r Request) (generation.Manifest, error) {
	before, err := e.changes().finishPending(ctx)
	if err != nil {
		return generation.Manifest{}, err
	}

	c, err := e.planner().change(ctx, r)
	if err != nil {
		return generation.Manifest{}, err
	}

	j := e.changes().journal(c, before)
	if r.Try > 0 {
		if j.Good == "" {
			return generation.Manifest{}, ErrNothingBefore
		}
		j.Try = &generation.Try{
			Until:    e.Now().Add(r.Try).UTC().Truncate(time.Second),
			Deadline: e.Uptime() + r.Try,
		}
	}

	if err := e.changes().write(c); err != nil {
		return generation.Manifest{}, err
	}

	if before.To != "" {
		if err := e.changes().record(before, Replaced, ""); err != nil {
			return generation.Manifest{}, err
		}
	}

	return e.changes().activate(ctx, c, j)
}

// unfinished wraps an error with ErrUnfinished. It returns nil for nil.
func unfinished(err error) error {
	if err == nil || errors.Is(err, ErrUnfinished) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnfinished, err)
}

// Tidy prunes generations if there are many. It is called after each change,
// and a series of changes must not pay for the deletions of the one before: a
// verdict prunes anyway, and an ext4 without a journal is slow to make an inode
// where many were deleted within the last minutes (find_inode_bit in
// fs/ext4/ialloc.c).
func (e *Executor) Tidy() error {
	n, err := e.store().Len()
	if err != nil || n <= crowded {
		return err
	}
	return e.changes().prune()
}

func (e *Executor) store() *generation.Store {
	if e.opened == nil {
		e.opened = generation.Open(e.State)
	}
	return e.opened
}

func (e *Executor) changes() changes {
	return changes{
		store:      e.store(),
		running:    e.running(),
		candidates: candidates{store: e.store(), ledger: e.ledger(), osVersion: e.OSVersion},
		planner:    e.planner(),
		files:      e.files(),
		units:      e.units(),
		ledger:     e.ledger(),
		osVersion:  e.OSVersion,
		bootID:     e.BootID,
		now:        e.Now,
		uptime:     e.Uptime,
		steady:     e.Steady,
		limit:      e.Limit,
		gate:       &e.gate,
	}
}

func (e *Executor) files() files {
	return files{
		node:      e.Node,
		image:     e.Image,
		state:     e.State,
		store:     e.store(),
		osVersion: e.OSVersion,
	}
}

func (e *Executor) units() units {
	return units{
		systemd: e.Units,
		node:    e.Node,
		bootID:  e.BootID,
		wait:    e.JobWait,
		limit:   e.Limit,
		uptime:  e.Uptime,
		owed:    owedUnits{state: e.State, running: e.running(), cached: &e.owed},
		reload:  &e.reload,
	}
}

func (e *Executor) running() running {
	return running{store: e.store(), osVersion: e.OSVersion, last: &e.last}
}

func (e *Executor) ledger() Ledger { return Ledger{State: e.State, Now: e.Now} }

// Held returns the hold on the configuration with this digest, if there is one.
func (e *Executor) Held(digest string) (Held, bool, error) { return e.ledger().Held(digest) }

// Hold keeps a configuration from being applied again by itself.
func (e *Executor) Hold(h Held) error { return e.ledger().Hold(h) }

// Release ends a hold, when a caller asks for the configuration on purpose.
func (e *Executor) Release(digest string) error { return e.ledger().Release(digest) }

func (e *Executor) planner() Planner {
	if e.catalog == nil {
		e.catalog = generation.NewCatalog(e.Image)
	}
	return Planner{
		State:     e.store().Reader,
		Node:      e.Node.Root().FS(),
		Image:     e.Image,
		Catalog:   e.catalog,
		Units:     e.Units,
		OSVersion: e.OSVersion,
	}
}
