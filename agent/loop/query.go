package loop

import (
	"context"
	"runtime"
	"time"

	"github.com/loam-os/loam/agent/liveness"
	"github.com/loam-os/loam/agent/metrics"
	"github.com/loam-os/loam/agent/registry"
)

// Queries ask the loop how the node stands, which it answers whatever is under
// way.
type Queries chan chan<- metrics.Sample

// Take is metrics.Take.
func (q Queries) Take(ctx context.Context) (metrics.Sample, error) {
	answer := make(chan metrics.Sample, 1)
	select {
	case q <- answer:
		return <-answer, nil
	case <-ctx.Done():
		return metrics.Sample{}, ctx.Err()
	}
}

// Standings is liveness.Watch's: how these units stand.
func (q Queries) Standings(ctx context.Context, units []string) (map[string]liveness.Standing, error) {
	s, err := q.Take(ctx)
	all := map[string]liveness.Standing{}
	for _, name := range units {
		all[name] = liveness.StandingOf(name, s.Status)
	}
	return all, err
}

// sample is the node now.
func (l *loop) sample() metrics.Sample {
	s := metrics.Sample{Status: l.shown, Counters: l.counters.Clone(), Goroutines: runtime.NumGoroutine()}
	s.Status.AgentRSS = metrics.Resident()
	if l.Cluster != nil {
		s.Counters.WatchRestarts = l.Cluster.WatchRestarts()
	}
	return s
}

// busyAfter is how long units that hang wait for the loop to restart them: longer
// than a look at a configuration waits for a containerd that hangs, so that this one
// is restarted between two looks.
const busyAfter = registry.AnswerLimit + 5*time.Second

// RestartUnlessBusy is liveness.Watch's: a change that is under way restarts units
// itself.
func (w Wishes) RestartUnlessBusy(ctx context.Context, units []string) error {
	return w.ask(ctx, Wish{Restart: units}, time.After(busyAfter)).err
}
