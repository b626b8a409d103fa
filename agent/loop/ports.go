package loop

import (
	"context"
	"time"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/agent/limits"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/storage"
	"github.com/loam-os/loam/agent/unit"
)

// Engine applies configurations; see [apply.Executor].
type Engine interface {
	Changer
	Judger
	Holder
	Repairer
	Starter
}

// Changer makes the node another generation.
type Changer interface {
	Resume(ctx context.Context) (apply.Resumed, error)
	Apply(ctx context.Context, r apply.Request) (generation.Manifest, error)
	Rollback(ctx context.Context, name string) (generation.Manifest, error)
	Reapply(ctx context.Context, name string) (generation.Manifest, error)
	Current() (generation.Manifest, bool, error)
	Tidy() error
}

// Judger says whether the change on trial stays.
type Judger interface {
	Pending() (apply.Pending, bool, error)
	Judge(ctx context.Context) (health.Verdict, error)
	Conclude(ctx context.Context, v health.Verdict) (generation.Manifest, error)
	Confirm() (generation.Manifest, error)
}

// Holder keeps configurations from being applied again.
type Holder interface {
	Held(digest string) (apply.Held, bool, error)
	Hold(h apply.Held) error
	Release(digest string) error
}

// Repairer restores managed paths.
type Repairer interface {
	Repair(ctx context.Context, paths []string, content map[string]config.Content) ([]string, error)
	Verify(
		ctx context.Context,
		content map[string]config.Content,
		repair bool,
		report func(done, all int64),
	) (apply.Verified, error)
}

// Starter starts again the units that a change could not start.
type Starter interface {
	Owed() ([]string, error)
	Retry(ctx context.Context) ([]string, error)
}

// Decoder decodes documents; see decode.Decoder.
type Decoder interface {
	// Decode returns what a document asks of this node. ctx ends with the agent.
	Decode(ctx context.Context, doc source.Document) (config.Desired, error)
}

// Host is the program that the loop is a part of.
type Host interface {
	// Ready is called once the loop is up, before the first apply, which may
	// wait for units that are ordered after the agent.
	Ready() error
	// Alive notifies the watchdog that the loop takes events.
	Alive() error
	// Uptime returns the time since kernel start, on CLOCK_MONOTONIC.
	Uptime() time.Duration
	// Storage returns the usage of the node's file systems.
	Storage() []storage.Usage
	// Limits returns the usage of the kernel's limits, of which before were used up.
	// Threads returns the usage of that of threads, and tries to have one more.
	Limits(before []status.Limit) []limits.Usage
	Threads() limits.Usage
	// TakenBack returns the last change of the node if it was taken back to this
	// generation, before or after a start of the agent; nil if it was not.
	TakenBack(generation string) *status.TakenBack
	// DoubtClock returns why the clock may be wrong, nil if nothing says so.
	DoubtClock() *status.WrongClock
	// Publish shows a status. news says that an operator cares about what changed.
	// The error says that it could not be written, and is logged already.
	Publish(s status.Status, news bool) error
	// Reach returns an error unless what a probe names answers.
	Reach(ctx context.Context, p config.Probe) error
	// Proven is called, beside the loop, when a change has proven itself.
	Proven(ctx context.Context)
	// FreeMemory is called, beside the loop, when the agent is idle after a change.
	// It gives memory of the program back to the kernel.
	FreeMemory()
	// End ends the agent, to be started again.
	End(why error)
}

// Units is what the loop itself asks of systemd; see [unit.Systemd].
type Units interface {
	Start(ctx context.Context, name string) error
	Restart(ctx context.Context, name string) error
	Show(ctx context.Context, names []string) ([]unit.State, error)
	Changes(ctx context.Context) (<-chan string, error)
}

// Drifts reports managed paths that something touched; see drift.Watcher.
type Drifts interface {
	Set(root string, paths []string) error
	Events() <-chan []string
	// Err returns why not all paths are watched, which may pass; nil if they
	// are.
	Err() error
}

// Cluster is the cluster that the node belongs to; see cluster.Cluster.
type Cluster interface {
	Recorder
	// Link is how the node stands with the cluster. Linked receives when that
	// changes.
	Link() status.Cluster
	Linked() <-chan struct{}
	// Prepare is called before a configuration is applied. The zero
	// configuration says that the last one is not applied after all.
	Prepare(ctx context.Context, d config.Desired)
	// WatchRestarts is how often a watch was started again.
	WatchRestarts() int
	// Drains are how many drains of the node ended, by how they did.
	Drains() (drained, postponed int)
	// Turns are how many turns of the node ended, by how they did.
	Turns() (done, failed, postponed int)
}

// Recorder tells a cluster how the node stands.
type Recorder interface {
	Report(s status.Status)
	// Event records what happened to the node.
	Event(warning bool, reason, message string)
}

// Watched is a part of the status that something else observes.
type Watched[T any] interface {
	State() *T
	// Changed receives when State may be another.
	Changed() <-chan struct{}
}

// Resetter removes all that was ever configured; see reset.Reset.
type Resetter interface {
	// Status is nil if the node is in no reset.
	Status() *status.Reset
	// Begin records a reset, Run carries it out, and Forget ends it.
	Begin() error
	Run(ctx context.Context) error
	Forget() error
	// Superseded reports whether a new machine.yaml has ended the reset.
	Superseded() bool
}
