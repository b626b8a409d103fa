package loop

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/hint"
)

// Jobs is systemd as the engine uses it. It records what was asked of systemd
// until the cluster is told, and which jobs have not ended. It is safe for use
// by several goroutines.
type Jobs struct {
	apply.Units
	// Changed receives when a job has begun or ended; nil if nothing listens.
	Changed chan struct{}

	mu   sync.Mutex
	done map[jobKind][]string
	// running are the jobs that have not ended, oldest first.
	running []*job
}

// job is a job of systemd that has not ended.
type job struct {
	unit  string
	began time.Time
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
	defer j.begin(name)()
	return j.record("Start", "started", name, j.Units.Start(ctx, name))
}

// Stop implements [apply.Units].
func (j *Jobs) Stop(ctx context.Context, name string) error {
	defer j.begin(name)()
	return j.record("Stop", "stopped", name, j.Units.Stop(ctx, name))
}

// Restart implements [apply.Units].
func (j *Jobs) Restart(ctx context.Context, name string) error {
	defer j.begin(name)()
	return j.record("Restart", "restarted", name, j.Units.Restart(ctx, name))
}

// ReloadUnit implements [apply.Units].
func (j *Jobs) ReloadUnit(ctx context.Context, name string) error {
	defer j.begin(name)()
	return j.record("Reload", "reloaded", name, j.Units.ReloadUnit(ctx, name))
}

// begin records that a job begins. It returns what ends it.
func (j *Jobs) begin(name string) (end func()) {
	begun := &job{unit: name, began: time.Now()}
	j.mu.Lock()
	defer j.mu.Unlock()

	j.running = append(j.running, begun)
	j.notify()
	return func() {
		j.mu.Lock()
		defer j.mu.Unlock()

		j.running = slices.DeleteFunc(j.running, func(other *job) bool { return other == begun })
		j.notify()
	}
}

// notify tells the loop that a job has begun or ended.
func (j *Jobs) notify() {
	select {
	case j.Changed <- struct{}{}:
	default: // Nothing listens, or it has not heard of the last one yet.
	}
}

// slowJob is how long a job takes at most without being mentioned.
const slowJob = time.Second

// slow returns the units of the jobs that have run for slowJob, oldest first,
// and how long the first of them has.
func (j *Jobs) slow() (units []string, took time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()

	for _, running := range j.running {
		if time.Since(running.began) < slowJob {
			break
		}
		if units == nil {
			took = time.Since(running.began)
		}
		units = append(units, running.unit)
	}
	return units, took
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
		event(kind.failed, kind.reason, message)
	}
}
