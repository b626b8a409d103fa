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

// Config is the node that an [Executor] changes. All fields must be set but Probes.
type Config struct {
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

	// JobWait limits one stage of units, unless one of them asks for longer
	// ([health.Patience]). A job that takes longer goes on in systemd and counts
	// as an error.
	JobWait time.Duration

	// Steady is how long all units must be well before a change is good, Limit
	// how long they may take to get there.
	Steady, Limit time.Duration

	// Probes ask units, by name, whether they do their work: systemd calls a
	// simple service up as soon as its process exists. A change is good only if
	// those that answered before it answer again. A unit without a probe is
	// judged by its state alone.
	Probes map[string]func(ctx context.Context) error

	// Now returns the wall clock, for the history. Uptime returns the time
	// since boot.
	Now    func() time.Time
	Uptime func() time.Duration
}

// Executor changes the configuration of one node. It is not safe for concurrent
// use.
type Executor struct {
	config Config
	parts
}

// Open returns the executor of a node. It reads and writes nothing yet.
func Open(c Config) *Executor { return &Executor{config: c, parts: newParts(c)} }

// Config returns what the executor was opened with.
func (e *Executor) Config() Config { return e.config }

// ErrUnfinished means that the node is between two generations. The journal
// stays, and Resume does the rest.
var ErrUnfinished = errors.New("apply is unfinished")

// unfinished wraps an error with ErrUnfinished. It returns nil for nil.
func unfinished(err error) error {
	if err == nil || errors.Is(err, ErrUnfinished) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnfinished, err)
}

// Current returns the generation that the node runs; false if it has none.
func (e *Executor) Current() (generation.Manifest, bool, error) {
	return e.running.current()
}

// Plan returns what Apply would do. It changes nothing.
func (e *Executor) Plan(ctx context.Context, d config.Desired, source string) (plan.Plan, error) {
	return e.planner.Plan(ctx, d, source)
}

// Resume ends a change that was cut off. The node then runs exactly the current
// generation, the one before the change or the one after it. If nothing was cut
// off and nothing has drifted, it writes nothing and does not call systemd.
func (e *Executor) Resume(ctx context.Context) (Resumed, error) {
	return e.resumer.resume(ctx)
}

// Apply makes the configuration of r the current generation. It first completes
// a change that was cut off. After an error before the flip, the node is as it
// was. An error in placing files is undone. If systemd cannot start, stop or
// restart a unit, Apply does all the rest and returns a *unit.JobError with the
// name of the unit; the generation stays until Judge and Conclude have decided.
func (e *Executor) Apply(ctx context.Context, r Request) (generation.Manifest, error) {
	before, err := e.resumer.finishPending(ctx)
	if err != nil {
		return generation.Manifest{}, err
	}
	return e.changes.apply(ctx, r, before)
}

// Rollback goes back, for an operator, to an earlier generation of the running
// OS version, or to the one before if name is "". The configuration that the
// node leaves is held. A generation that is held because it failed is refused:
// see [Executor.Reapply].
func (e *Executor) Rollback(ctx context.Context, name string) (generation.Manifest, error) {
	return e.rollbacks.rollback(ctx, name)
}

// Reapply makes an earlier generation of the running OS version the current one
// although it is held because it failed. Unlike after a rollback, it is watched
// and reverted if it is bad. Once it has proven itself, it is no longer held.
func (e *Executor) Reapply(ctx context.Context, name string) (generation.Manifest, error) {
	return e.rollbacks.reapply(ctx, name)
}

// Pending returns the change that is under way, and reports whether there is
// one.
func (e *Executor) Pending() (Pending, bool, error) { return e.trial.pending() }

// Judge observes the units of the watched change. Conclude carries out the
// verdict. If no change is watched, the verdict is zero.
func (e *Executor) Judge(ctx context.Context) (health.Verdict, error) {
	return e.trial.judge(ctx)
}

// Conclude carries out a verdict: a good change stays, and a bad one is
// reverted. It returns the generation that the node then runs.
func (e *Executor) Conclude(ctx context.Context, v health.Verdict) (generation.Manifest, error) {
	return e.trial.conclude(ctx, v)
}

// Confirm ends the trial of a change, so that it stays. Its units are still
// watched until all of them have been well for long enough.
func (e *Executor) Confirm() (generation.Manifest, error) { return e.trial.confirm() }

// Held returns the hold on the configuration with this digest, and reports
// whether it is held.
func (e *Executor) Held(digest string) (Held, bool, error) { return e.ledger.Held(digest) }

// Hold keeps a configuration from being applied again by itself.
func (e *Executor) Hold(h Held) error { return e.ledger.Hold(h) }

// Release ends a hold, when a caller asks for the configuration on purpose.
func (e *Executor) Release(digest string) error { return e.ledger.Release(digest) }

// Owed lists the units of the current generation that systemd could not start
// or restart when they changed, and that have not come up since: see Retry.
// When no unit is owed, the configuration counts as applied.
func (e *Executor) Owed() ([]string, error) { return e.units.owed.list() }

// Retry starts the owed units again, and returns the ones that are still owed,
// and why. A unit that has come up by itself is no longer owed. A start that
// takes longer than retryWait goes on in systemd, and its unit stays owed until
// it is up.
func (e *Executor) Retry(ctx context.Context) ([]string, error) {
	return e.units.retry(ctx)
}

// Repair makes the given paths what the current generation says, and returns
// the ones that were different. Paths in /var/lib/loam, which links lead
// through, are restored in the store, with content (by digest) where the store
// has lost it. An error of one path does not keep Repair from the others.
func (e *Executor) Repair(
	ctx context.Context, paths []string, content map[string]config.Content,
) ([]string, error) {
	return e.repairs.repair(ctx, paths, content)
}

// Verify reads all content of all generations, and every managed path of the
// node, and compares them with the manifests. With repair it repairs what it
// can: the node from the store; the store from content, from its own other
// copies and from real files on the node. It calls report after each file with how
// many bytes of all it has read, unless report is nil.
func (e *Executor) Verify(
	ctx context.Context,
	content map[string]config.Content,
	repair bool,
	report func(done, all int64),
) (Verified, error) {
	return e.repairs.verify(ctx, content, repair, report)
}

// Tidy prunes generations if there are many. It is called after each change,
// and a series of changes must not pay for the deletions of the one before: a
// verdict prunes anyway, and an ext4 without a journal is slow to make an inode
// where many were deleted within the last minutes (find_inode_bit in
// fs/ext4/ialloc.c).
func (e *Executor) Tidy() error { return e.changes.tidy() }

// Reset removes what all generations have placed, and then the generations with
// their content, as if the node had never had one. There is no verdict to wait
// for, and no way back.
//
// It keeps no journal: if it is cut off, it begins again, before any Resume,
// which would repair the node. If the error is ErrUnfinished, something is
// still there; the generations then stay, as they know what to remove. Any
// other error comes from a unit of the image that did not come up without its
// configuration.
func (e *Executor) Reset(ctx context.Context) error {
	done, err := e.removal.removeAll(ctx)
	if done {
		e.parts = newParts(e.config)
	}
	return err
}
