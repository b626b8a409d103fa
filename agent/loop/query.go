package loop

import (
	"context"

	"github.com/loam-os/loam/agent/liveness"
	"github.com/loam-os/loam/agent/metrics"
)

// Queries ask a loop how the node stands. It answers them while a step runs,
// too.
type Queries chan chan<- metrics.Sample

// Take returns a sample of the node, for [metrics.Handler].
func (q Queries) Take(ctx context.Context) (metrics.Sample, error) {
	answer := make(chan metrics.Sample, 1)
	select {
	case q <- answer:
		return <-answer, nil
	case <-ctx.Done():
		return metrics.Sample{}, ctx.Err()
	}
}

// Standings returns how these units stand, for [liveness.Watch].
func (q Queries) Standings(
	ctx context.Context,
	units []string,
) (map[string]liveness.Standing, error) {
	s, err := q.Take(ctx)
	all := map[string]liveness.Standing{}
	for _, name := range units {
		all[name] = liveness.StandingOf(name, s.Status)
	}
	return all, err
}
