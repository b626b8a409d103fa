package loop

import (
	"context"
	"runtime"
	"sync"

	"github.com/loam-os/loam/agent/metrics"
)

// runner is a [Loop] that runs. Only the goroutine of [Loop.Run] touches it. It
// begins steps, waits for events, and does the effects of both: no other code but
// the worker touches the node.
type runner struct {
	loop      *Loop
	state     State
	alarms    alarms
	worker    worker
	publisher publisher
	counters  metrics.Counters

	events events
	// done receives from the step that runs beside the loop. others are that
	// step and all else that the loop has started.
	done   chan outcome
	others *sync.WaitGroup
}

// outcome is a step that is done.
type outcome struct {
	step   Step
	result Result
}

// newRunner returns a loop that is about to run.
func newRunner(l *Loop, others *sync.WaitGroup) *runner {
	return &runner{
		loop: l,
		state: State{
			Facts:  l.Status,
			Faults: Faults{Desired: l.Status.Error},
			Due:    Due{Resume: true, Read: true},
		},
		worker: worker{
			engine:  l.Engine,
			units:   l.Units,
			source:  l.Source,
			cluster: l.Cluster,
			reset:   l.Reset,
			decoder: l.Decoder,
			host:    l.Host,
		},
		publisher: publisher{
			cluster:  l.Cluster,
			jobs:     l.Jobs,
			network:  l.Network,
			own:      l.OwnCluster,
			upgrades: l.Upgrades,
			host:     l.Host,
		},
		done:   make(chan outcome, 1),
		others: others,
	}
}

// begin does a step that takes no time, or starts any other beside the loop.
func (r *runner) begin(ctx context.Context, step Step) {
	if step.Kind == Read && step.Request == nil && r.loop.Source == nil {
		r.state.Due.Read = false
		r.run(ctx, []Effect{Show{}})
		return
	}

	state, effects := r.state.Begin(step, r.loop.Host.Uptime())
	r.state = state
	r.run(ctx, effects)
	if !r.state.Busy {
		r.finish(ctx, step, r.worker.perform(ctx, step))
		return
	}

	r.others.Go(func() {
		r.done <- outcome{step: step, result: r.worker.perform(ctx, step)}
	})
}

// finish takes in the result of a step, and does what it entails. A loop that
// ends only answers callers.
func (r *runner) finish(ctx context.Context, step Step, result Result) {
	state, effects := r.state.After(step, result, r.loop.Host.Uptime())
	r.state = state
	if ctx.Err() == nil || (step.Request != nil && step.Kind != Apply) {
		r.run(ctx, effects)
	}
}

// turnsOf returns how the turns of the node ended.
func turnsOf(c Cluster) metrics.Turns {
	var t metrics.Turns
	t.Done, t.Failed, t.Postponed = c.Turns()
	return t
}

// sample returns the state of the node for the metrics.
func (r *runner) sample() metrics.Sample {
	s := metrics.Sample{
		Status:     r.state.Published.Last,
		Counters:   r.counters.Clone(),
		Goroutines: runtime.NumGoroutine(),
	}
	s.Status.AgentRSS = metrics.Resident()
	if r.loop.Cluster != nil {
		s.Counters.WatchRestarts = r.loop.Cluster.WatchRestarts()
		s.Counters.Drained, s.Counters.Postponed = r.loop.Cluster.Drains()
		s.Counters.Turns = turnsOf(r.loop.Cluster)
	}
	return s
}
