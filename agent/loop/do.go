package loop

import (
	"context"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/limits"
	"github.com/loam-os/loam/hint/fault"
)

// run does effects in their order. What an observation entails is done before the
// next effect.
func (r *runner) run(ctx context.Context, effects []Effect) {
	for _, e := range effects {
		state, entailed := r.do(ctx, e)
		r.state = state
		r.run(ctx, entailed)
	}
}

// do does an effect. It returns the state after it, and what that entails.
func (r *runner) do(ctx context.Context, e Effect) (State, []Effect) {
	switch e := e.(type) {
	case Log:
		r.loop.Log.Log(e.Level, e.Text, e.Fields...)
	case Event:
		if r.loop.Cluster != nil {
			r.loop.Cluster.Event(true, e.Reason, e.Message)
		}
	case Warn:
		r.loop.Log.Warn(e.What, zap.Error(e.Err))
		var usages []limits.Usage
		if fault.Of(e.Err) == fault.LimitReached {
			usages = r.loop.Host.Limits(r.state.Facts.Limits)
		}
		return warned(r.state, e, usages)
	case Answer:
		e.Request.response <- e.Response
	case SetAlarm:
		r.alarms.soon(e.Which, e.In)
	case ClearAlarm:
		r.alarms.clear(e.Which)
	case Observe:
		return r.observe(ctx, e)
	case TryThreads:
		return threadsTried(r.state, e.Apply, r.loop.Host.Threads())
	case Watch:
		current := r.state.Current
		if r.loop.Drift != nil && current.Generation.Name() != r.state.Drift.Watched.Name() {
			return watched(r.state, r.loop.Drift.Set(r.loop.Root, current.watchedPaths()))
		}
	case Show:
		return show(r.state, r.loop.Host.Uptime(), r.loop.Limit)
	case Publish:
		r.state.Published = r.publisher.publish(r.state.Status(), r.state.Published)
	case ShowShells:
		r.state.Published = r.publisher.publish(withShells(r.state), r.state.Published)
	case Begin:
		r.begin(ctx, e.Step)
	case Release:
		if err := releaseHold(r.loop.Engine, e.Digest); err != nil {
			return r.state, []Effect{Warn{What: "release the source's configuration", Err: err}}
		}
	case Unprepare:
		if r.loop.Cluster != nil {
			r.loop.Cluster.Prepare(ctx, config.Desired{})
		}
	case Proven:
		r.others.Go(func() { r.loop.Host.Proven(ctx) })
	case Count:
		r.counters.Applied(string(e.Outcome), r.loop.Host.Uptime()-e.Began)
	case Alive:
		if err := r.loop.Host.Alive(); err != nil {
			return r.state, []Effect{Warn{What: "watchdog", Err: err}}
		}
	case FreeMemory:
		r.others.Go(r.loop.Host.FreeMemory)
	case End:
		r.loop.Host.End(e.Why)
	}
	return r.state, nil
}

// observe makes an observation. It returns the state with it, and what that
// entails.
func (r *runner) observe(ctx context.Context, what Observe) (State, []Effect) {
	switch what {
	case ObserveUnits:
		units, err := r.loop.Units.Show(ctx, r.state.Current.unitNames())
		if ctx.Err() == nil {
			return unitsObserved(r.state, units, err, r.loop.Host.Uptime(), r.loop.Steady)
		}
	case ObserveVerdict:
		v, err := r.loop.Engine.Judge(ctx)
		return judged(r.state, v, err, r.loop.Host.Uptime())
	case ObserveJobs:
		return jobsObserved(r.state, r.slowJobs(ctx), r.loop.Host.Uptime(), r.loop.Limit)
	case ObserveStorage:
		return storageObserved(r.state, r.loop.Host.Storage())
	case ObserveLimits:
		return limitsObserved(r.state, r.loop.Host.Limits(r.state.Facts.Limits))
	case ObserveClock:
		return clockObserved(r.state, r.loop.Host.DoubtClock())
	}
	return r.state, nil
}

// slowJobs observes the jobs that the step waits for.
func (r *runner) slowJobs(ctx context.Context) slowJobs {
	var jobs slowJobs
	jobs.units, jobs.took = r.loop.Jobs.slow()
	if len(jobs.units) == 0 {
		return jobs
	}

	states, err := r.loop.Units.Show(ctx, jobs.units[:1])
	jobs.err = err
	if err == nil {
		jobs.first = states[0]
	}
	return jobs
}
