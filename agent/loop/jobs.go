package loop

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/loam-os/loam/agent/apply"
)

// Jobs is systemd as the engine asks it, which remembers what was asked until the
// cluster is told.
type Jobs struct {
	apply.Units

	mu   sync.Mutex
	done map[jobKind][]string
}

// jobKind is what units have in common that one event tells of.
type jobKind struct {
	// reason is the Event's, as Gardener's agent has it; verb is for people.
	reason, verb string
	failed       bool
}

// Start is of apply.Units; so are the following.
func (j *Jobs) Start(ctx context.Context, name string) error {
	return j.note("Start", "started", name, j.Units.Start(ctx, name))
}

func (j *Jobs) Stop(ctx context.Context, name string) error {
	return j.note("Stop", "stopped", name, j.Units.Stop(ctx, name))
}

func (j *Jobs) Restart(ctx context.Context, name string) error {
	return j.note("Restart", "restarted", name, j.Units.Restart(ctx, name))
}

func (j *Jobs) ReloadUnit(ctx context.Context, name string) error {
	return j.note("Reload", "reloaded", name, j.Units.ReloadUnit(ctx, name))
}

func (j *Jobs) note(reason, verb, name string, err error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.done == nil {
		j.done = map[jobKind][]string{}
	}
	kind, text := jobKind{"SystemDUnit" + reason, verb, err != nil}, name
	if err != nil {
		text = err.Error()
	}
	j.done[kind] = append(j.done[kind], text)
	return err
}

// eventLimit is how long the message of an Event may be, in bytes (events.k8s.io/v1,
// note).
const eventLimit = 1024

// Report reports what was done since the last time, one event for each kind.
func (j *Jobs) Report(event func(warning bool, reason, message string)) {
	j.mu.Lock()
	done := j.done
	j.done = nil
	j.mu.Unlock()
	for _, kind := range slices.SortedFunc(maps.Keys(done), func(a, b jobKind) int { return strings.Compare(a.reason, b.reason) }) {
		slices.Sort(done[kind])
		message := kind.verb + " " + strings.Join(done[kind], ", ")
		if kind.failed {
			message = strings.Join(done[kind], "; ")
		}
		event(kind.failed, kind.reason, shorten(message))
	}
}

// shorten makes a message fit into an Event.
func shorten(message string) string {
	if len(message) > eventLimit {
		return message[:eventLimit-3] + "..."
	}
	return message
}
