package loop

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/agent/limits"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// node is the node as the loop knows it: its state, and what observes and
// publishes that.
type node struct {
	state  State
	alarms alarms
	// caller waits for the verdict on the change on trial.
	caller    caller
	published publisher

	engine Engine
	jobs   *Jobs
	units  Units
	paths  paths
	host   Host
	// steady and limit are as in [Loop].
	steady, limit time.Duration
	log           *zap.Logger
}

// newNode returns a node before anything was observed.
func newNode(l *Loop) *node {
	return &node{
		state: State{
			Facts:  l.Status,
			Faults: Faults{Desired: l.Status.Error},
			Due:    Due{Resume: true, Read: true},
		},
		published: publisher{
			cluster:  l.Cluster,
			jobs:     l.Jobs,
			network:  l.Network,
			own:      l.OwnCluster,
			upgrades: l.Upgrades,
			host:     l.Host,
		},
		engine: l.Engine,
		jobs:   l.Jobs,
		units:  l.Units,
		paths:  paths{drift: l.Drift, root: l.Root},
		host:   l.Host,
		steady: l.Steady,
		limit:  l.Limit,
		log:    l.Log,
	}
}

// paths are the managed paths.
type paths struct {
	// drift is nil if nothing watches them.
	drift Drifts
	root  string
	// watched is the generation whose paths are watched.
	watched generation.Manifest
}

// watch watches the paths of a generation, and no others any more.
func (p paths) watch(m generation.Manifest) error {
	return p.drift.Set(p.root, slices.Concat(generation.Paths(m), generation.Ways(m)))
}

// observed takes in what a step has made of the node. Once the node is
// published, guard has to watch the paths of a new generation.
func (n *node) observed(o Observation) {
	for _, p := range o.Problems {
		n.warn(p.What, p.Err)
	}
	n.state = n.state.observed(o)
	n.startLater()
}

// guard watches the paths of a new generation, and then has the loop look once
// at those that something may have touched before.
func (n *node) guard() {
	before := n.paths.watched
	current := n.state.Current.Generation
	if n.paths.drift == nil || current.Name() == before.Name() {
		return
	}

	n.paths.watched = current
	err := n.paths.watch(current)
	if err != nil {
		n.warn("watch managed paths", err)
	}
	n.state = n.state.guard(before, err == nil)
}

// checkWatches takes in whether all managed paths are still watched. Until they
// are watched again, each change looks at all of them.
func (n *node) checkWatches() {
	err := n.paths.drift.Err()
	if len(n.state.Facts.Limits) > 0 {
		n.alarms.soon(aliveAlarm, 0)
	}
	if err == nil || !n.state.Drift.Guarded {
		return
	}
	n.state.Drift.Guarded = false
	n.warn("watch managed paths", err)
	n.observeIn(quietPeriod)
}

// startLater sets the alarm for the units that are owed.
func (n *node) startLater() {
	if len(n.state.Starts.Owed) == 0 {
		n.state.Starts.Wait = 0
		n.alarms.clear(startAlarm)
		return
	}
	if !n.alarms.isSet(startAlarm) {
		n.state.Starts.Wait = backoff(n.state.Starts.Wait)
		n.alarms.soon(startAlarm, n.state.Starts.Wait)
	}
}

// observeUnits observes the units of the current generation, judges the change
// on trial by them, and publishes how the node stands.
func (n *node) observeUnits(ctx context.Context) {
	var names []string
	for _, u := range n.state.Current.Generation.Units {
		if !generation.IsTemplate(u.Name) {
			names = append(names, u.Name)
		}
	}
	units, err := n.units.Show(ctx, names)
	if ctx.Err() != nil {
		return
	}

	n.state.Current.Observed = true
	if err != nil {
		n.warn("observe units", err)
	} else {
		var again time.Duration
		n.state, again = n.state.withUnits(units, n.host.Uptime(), n.steady)
		n.observeIn(again)
		n.judge(ctx)
	}
	n.show(ctx)
}

// observeJobs finds out which job of systemd the step waits for, and publishes
// that.
func (n *node) observeJobs(ctx context.Context) {
	if !n.state.Busy {
		return // The step has ended.
	}

	names, took := n.jobs.slow()
	var job *status.Awaited
	if len(names) > 0 {
		n.alarms.soon(jobAlarm, jobInterval)
		units, err := n.units.Show(ctx, names[:1])
		if err != nil {
			return // The job says why.
		}
		deadline := n.host.Uptime() - took + n.limit
		job = n.state.awaitedJob(units[0], len(names)-1, deadline)
	}
	n.state.Change.Job = job
	n.published.publish(n.state.Status())
}

// observeIn has the units observed after d, unless d is 0.
func (n *node) observeIn(d time.Duration) {
	if d > 0 {
		n.alarms.soon(observeAlarm, d)
	}
}

// judge asks for a verdict on the change on trial.
func (n *node) judge(ctx context.Context) {
	pending := n.state.Change.Pending
	if n.state.Faults.Unfinished != nil || pending == nil || !pending.Watched {
		return
	}
	if n.state.Busy {
		n.state.Due.Judge = true
		return
	}

	v, err := n.engine.Judge(ctx)
	if err != nil {
		n.warn("judge the change", err)
		n.observeIn(readDelay)
		return
	}
	n.state.Change.Shown = changeOf(*pending, v)
	n.state.Change.Unit = n.state.awaitedBy(v)
	switch v.Word {
	case health.Good, health.Bad:
		n.state.Change.Verdict = v
	case health.Confirm:
		n.caller.answer(n.state, v, n.state.Current.Generation)
		n.observeIn(untilVerdict(v, n.host.Uptime()))
	case health.Wait:
		n.observeIn(untilVerdict(v, n.host.Uptime()))
	}
}

// untilVerdict returns when to observe the units again for a verdict.
func untilVerdict(v health.Verdict, now time.Duration) time.Duration {
	return max(quietPeriod, min(v.Next-now, time.Minute))
}

// show publishes the state of the node. It observes the units only if they were
// not observed since the generation became current.
func (n *node) show(ctx context.Context) {
	if !n.state.Current.Observed {
		n.observeUnits(ctx)
		return
	}

	before := n.state.Facts.AppliedAt
	var again time.Duration
	n.state, again = n.state.evaluate(n.host.Uptime(), n.limit)
	n.observeIn(again)
	if before == 0 && n.state.Facts.AppliedAt > 0 {
		n.log.Info("the configuration is applied",
			zap.String("generation", n.state.Current.Generation.Name()))
	}
	n.published.publish(n.state.Status())
}

// warn logs an error that the node lives with, and has the status show it. A limit
// of the kernel is in the status for as long as it is used up, and then says enough.
func (n *node) warn(what string, err error) {
	n.log.Warn(what, zap.Error(err))
	if fault.Of(err) == fault.LimitReached {
		n.alarms.soon(aliveAlarm, 0)
		before := n.state.Facts.Limits
		if limits.Explains(limits.Decide(before, n.host.Limits(before)), err) {
			return
		}
	}
	n.state = n.state.warn(what + ": " + hint.Line(err))
}

// repairLater schedules a check of all managed paths if one cannot be repaired.
// A change is judged nevertheless.
func (n *node) repairLater(err error) {
	if err != nil {
		n.log.Error("repair", zap.Error(err))
		n.alarms.soon(repairAlarm, retryDelay)
	}
}

// release lets a configuration of the source count again that an operator's
// request held.
func (n *node) release(digest string) {
	if err := releaseHold(n.engine, digest); err != nil {
		n.warn("release the source's configuration", err)
	}
}
