package loop

import (
	"context"
	"reflect"
	"runtime"
	"runtime/debug"
	"sync"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/agent/metrics"
)

// runner is a [Loop] that runs. Only the goroutine of [Loop.Run] touches it. It
// begins steps and waits for events; what a result entails is in the types for
// each kind of step.
type runner struct {
	node       *node
	worker     worker
	changes    *changes
	repairs    repairs
	storages   storages
	reconciler reconciler
	resets     resets

	events   events
	requests Requests
	queries  Queries
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
	n := newNode(l)
	report := newReporter(l)

	return &runner{
		node: n,
		worker: worker{
			engine:  l.Engine,
			units:   l.Units,
			source:  l.Source,
			cluster: l.Cluster,
			reset:   l.Reset,
			decoder: l.Decoder,
			host:    l.Host,
		},
		changes: &changes{
			node:    n,
			report:  report,
			cluster: l.Cluster,
			others:  others,
		},
		repairs:    repairs{node: n, report: report},
		storages:   storages{node: n, report: report},
		reconciler: reconciler{node: n, report: report},
		resets:     resets{node: n, reset: l.Reset},
		requests:   l.Requests,
		queries:    l.Queries,
		done:       make(chan outcome, 1),
		others:     others,
	}
}

// begin does a step, or starts it beside the loop.
func (r *runner) begin(ctx context.Context, step Step) {
	if step.Kind == Read && step.Request == nil && r.worker.source == nil {
		r.node.state.Due.Read = false
		r.node.show(ctx)
		return
	}

	before := r.node.state
	r.node.state = before.Begin(step, r.node.host.Uptime())
	r.announce(before, step)
	if !r.node.state.Busy {
		r.do(ctx, step)
		return
	}

	r.others.Go(func() {
		r.done <- outcome{step: step, result: r.worker.perform(ctx, step)}
	})
}

// do does a step that takes no time.
func (r *runner) do(ctx context.Context, step Step) {
	switch step.Kind {
	case Judge:
		r.node.observeUnits(ctx)
	case Idle:
		if !r.node.published.any {
			r.node.show(ctx)
		}
	case Confirm:
		r.changes.confirmed(ctx, step, r.worker.perform(ctx, step))
	case BeginReset:
		r.resets.begin(step.Request)
	case AnswerReset:
		step.Request.respond(resetOutcome(r.node.state))
	case EndReset:
		r.resets.follow(step.Request)
	}
}

// announce logs and publishes the begin of the steps that an operator cares
// about.
func (r *runner) announce(before State, step Step) {
	log := r.node.log

	switch step.Kind {
	case Conclude:
		if step.Verdict.Word == health.Bad {
			log.Warn("the change made the node worse",
				zap.String("generation", step.Have.Name()),
				zap.String("reason", step.Verdict.Reason))
		}
	case Apply:
		r.changes.applies(before, step)
	case Restart:
		log.Info("restarting on request", zap.Strings("units", step.Request.Restart))
	case RunReset:
		log.Warn("reset", zap.Time("asked", before.Facts.Reset.At))
		r.node.published.publish(r.node.state.Status())
	}
}

// merge takes in the result of a step, and begins the step that follows from
// it. It logs, answers callers, sets alarms, observes and publishes; what the
// result makes of the state is in [State.After]. A loop that ends only answers
// callers.
func (r *runner) merge(ctx context.Context, step Step, result Result) {
	before := r.node.state
	r.node.state = before.After(step, result, r.node.host.Uptime())
	if ctx.Err() != nil && (step.Request == nil || step.Kind == Apply) {
		return
	}

	switch step.Kind {
	case Resume:
		r.changes.resumed(ctx, result)
	case Conclude:
		r.changes.concluded(ctx, step, result)
	case Repair:
		r.repairs.repaired(ctx, before, result)
	case Read:
		if next := r.reconciler.next(ctx, step, result); next.Kind != Wait {
			r.begin(ctx, next)
		}
	case Probe:
		if !result.Answers && len(r.node.state.Facts.Waits) > 0 {
			r.node.alarms.soon(probeAlarm, probeDelay)
		}
	case Start:
		r.changes.started(ctx, result)
	case Prune:
		r.node.alarms.soon(idleAlarm, idleDelay)
		if result.Err != nil {
			r.node.warn("delete old generations", result.Err)
		}
	case Apply:
		r.changes.applied(ctx, step, result)
	case Rollback:
		r.changes.rolledBack(ctx, step, result)
	case Reapply:
		r.changes.reapplied(ctx, step, result)
	case Verify:
		r.repairs.verified(ctx, step, result)
	case Restart:
		step.Request.response <- response{err: result.Err}
		r.node.observeUnits(ctx)
	case RunReset:
		r.resets.ran(ctx, step, result)
	}
}

// admitted are the requests that the loop takes: none while a step runs.
func (r *runner) admitted() <-chan *Request {
	if r.node.state.Busy {
		return nil
	}
	return r.requests
}

// handle begins what a request asks for.
func (r *runner) handle(ctx context.Context, request *Request) {
	step, err := Admit(r.node.state, request)
	if err != nil {
		request.fail(err)
		return
	}
	r.begin(ctx, step)
}

// ring does what an alarm is for.
func (r *runner) ring(ctx context.Context, which alarm) {
	r.node.state = r.node.state.ring(which)
	switch which {
	case observeAlarm:
		r.node.observeUnits(ctx)
	case jobAlarm:
		r.node.observeJobs(ctx)
	case idleAlarm:
		r.others.Go(freeMemory)
	case aliveAlarm:
		if err := r.node.host.Alive(); err != nil {
			r.node.warn("watchdog", err)
		}
		r.node.alarms.soon(aliveAlarm, aliveInterval)
		r.storages.observe(ctx)
		r.observeLimits(ctx)
		r.observeClock(ctx)
	}
}

// observeClock compares the clocks, and publishes what is wrong with them.
func (r *runner) observeClock(ctx context.Context) {
	if r.node.host.Uptime() < clockDelay {
		return
	}

	before := r.node.state.Facts.Clock
	now := r.node.host.DoubtClock()
	if reflect.DeepEqual(before, now) {
		return
	}

	r.node.state.Facts.Clock = now
	if before == nil {
		r.node.log.Warn("clock", zap.String("problem", now.Problem))
	}
	r.node.show(ctx)
}

// freeMemory gives memory back to the kernel. Pools of the libraries let go of
// theirs at the second collection.
func freeMemory() {
	debug.FreeOSMemory()
	debug.FreeOSMemory()
}

// sample returns the state of the node for the metrics.
func (r *runner) sample() metrics.Sample {
	s := metrics.Sample{
		Status:     r.node.published.last,
		Counters:   r.changes.counters.Clone(),
		Goroutines: runtime.NumGoroutine(),
	}
	s.Status.AgentRSS = metrics.Resident()
	if r.changes.cluster != nil {
		s.Counters.WatchRestarts = r.changes.cluster.WatchRestarts()
		s.Counters.Drained, s.Counters.Postponed = r.changes.cluster.Drains()
	}
	return s
}
