package loop

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/hint"
)

// Jobs is systemd as the engine uses it. It records what was asked of systemd
// until the cluster is told. It is safe for use by several goroutines.
type Jobs struct {
	apply.Units

	mu   sync.Mutex
	done map[jobKind][]string
}

// jobKind is what the units of one Event have in common.
type jobKind struct {
	// reason is the reason of the Event, as Gardener's node agent has it.
	reason string
	// verb is what was done, for operators.
	verb   string
	failed bool
}

// Start implements [apply.Units].
func (j *Jobs) Start(ctx context.Context, name string) error {
	return j.record("Start", "started", name, j.Units.Start(ctx, name))
}

// Stop implements [apply.Units].
func (j *Jobs) Stop(ctx context.Context, name string) error {
	return j.record("Stop", "stopped", name, j.Units.Stop(ctx, name))
}

// Restart implements [apply.Units].
func (j *Jobs) Restart(ctx context.Context, name string) error {
	return j.record("Restart", "restarted", name, j.Units.Restart(ctx, name))
}

// ReloadUnit implements [apply.Units].
func (j *Jobs) ReloadUnit(ctx context.Context, name string) error {
	return j.record("Reload", "reloaded", name, j.Units.ReloadUnit(ctx, name))
}

// record records a job, and returns its error.
func (j *Jobs) record(reason, verb, name string, err error) error {
	j.mu.Lock()
	defer j.mu.Unlock()

	text := name
	if err != nil {
		text = hint.Line(err)
	}
	kind := jobKind{reason: "SystemDUnit" + reason, verb: verb, failed: err != nil}
	if j.done == nil {
		j.done = map[jobKind][]string{}
	}
	j.done[kind] = append(j.done[kind], text)
	return err
}

// Report reports what was done since the last call, one event for each kind of
// job.
func (j *Jobs) Report(event func(warning bool, reason, message string)) {
	j.mu.Lock()
	done := j.done
	j.done = nil
	j.mu.Unlock()

	kinds := slices.SortedFunc(maps.Keys(done), func(a, b jobKind) int {
		return cmp.Compare(a.reason, b.reason)
	})
	for _, kind := range kinds {
		texts := slices.Sorted(slices.Values(done[kind]))
		message := kind.verb + " " + strings.Join(texts, ", ")
		if kind.failed {
			message = strings.Join(texts, "; ")
		}
		event(kind.failed, kind.reason, shorten(message))
	}
}

// eventLimit is how long the message of an Event may be, in bytes
// (events.k8s.io/v1, note).
const eventLimit = 1024

// shorten makes a message fit into an Event.
func shorten(message string) string {
	if len(message) > eventLimit {
		return message[:eventLimit-3] + "..."
	}
	return message
}
