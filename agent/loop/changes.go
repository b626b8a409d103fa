package loop

import (
	"context"
	"errors"
	"sync"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/agent/metrics"
)

// changes takes in what the steps that change the node have come to.
type changes struct {
	node   *node
	report reporter
	// cluster is nil on a node that is part of none.
	cluster  Cluster
	counters metrics.Counters
	others   *sync.WaitGroup
}

// applies logs and publishes that an apply begins.
func (c *changes) applies(before State, step Step) {
	c.node.log.Info("applying",
		zap.String("digest", step.Apply.Digest),
		zap.String("source", step.Apply.Source))
	c.node.alarms.clear(startAlarm)
	c.node.published.publish(c.node.state.Status())
	if before.Change.Pending != nil {
		c.counters.Applied(string(apply.Replaced), c.node.host.Uptime()-before.Change.Began)
	}
}

func (c *changes) resumed(ctx context.Context, r Result) {
	if r.Resumed.Replacement != "" {
		c.node.warn("the current generation was damaged",
			errors.New("the node went on with "+r.Resumed.Replacement))
	}
	switch {
	case c.node.state.Faults.Unfinished != nil:
		c.node.log.Error("resume", zap.Error(r.Err))
		c.node.alarms.soon(resumeAlarm, retryDelay)
	case r.Err == nil && r.Resumed.Finished != "":
		c.node.log.Info("finished an apply that was cut off",
			zap.String("generation", r.Resumed.Finished))
	}
	c.report.repaired(r.Resumed.Repaired)
	c.node.repairLater(r.Resumed.Drift)

	// A read that is due observes later. But before a verdict no unit may
	// change any more.
	c.node.observed(r.Node)
	if !c.node.state.Due.Read || c.node.state.Change.Pending != nil {
		c.node.observeUnits(ctx)
	}
	c.node.guard()
}

func (c *changes) concluded(ctx context.Context, step Step, r Result) {
	v := step.Verdict
	before := step.Have
	stays := r.Err == nil && v.Word == health.Good
	if stays && len(v.Unwell) > 0 {
		c.node.log.Warn("the change stays, and not all of its units are well",
			zap.String("reason", v.Reason))
		c.report.event("UnitNotWell", v.Reason)
	}

	c.changed(ctx, r)
	if errors.Is(r.Err, apply.ErrUnfinished) {
		c.node.caller.fail(r.Err)
	}
	if stays {
		// It may take long, and changes nothing of the node.
		c.others.Go(func() { c.node.host.Proven(ctx) })
	}
	if r.Err == nil {
		outcome := outcomeOf(v, before, c.node.state.Current.Generation)
		c.node.state = c.node.state.concluded(outcome, before, v)
		c.counters.Applied(string(outcome), c.node.host.Uptime()-c.node.state.Change.Began)
	}
	c.node.caller.answer(c.node.state, v, before)
}

// outcomeOf returns what a verdict on the change to before has come to.
func outcomeOf(v health.Verdict, before, now generation.Manifest) apply.Outcome {
	switch {
	case v.Word == health.Good:
		return apply.Applied
	case before.Name() == now.Name():
		return apply.Failed
	}
	return apply.Reverted
}

// changed observes what the engine has made of the node.
func (c *changes) changed(ctx context.Context, r Result) {
	err := r.Err
	c.node.observed(r.Node)
	name := c.node.state.Current.Generation.Name()
	switch {
	case errors.Is(err, apply.ErrUnfinished):
		c.node.log.Error("apply", zap.Error(err))
		c.node.alarms.soon(resumeAlarm, retryDelay)
	case err != nil:
		c.node.log.Warn("units did not come up",
			zap.String("generation", name),
			zap.Error(err))
	default:
		c.node.log.Info("the node runs", zap.String("generation", name))
	}

	c.node.observeUnits(ctx)
	c.node.guard()
}

func (c *changes) started(ctx context.Context, r Result) {
	if r.Err != nil {
		c.node.log.Warn("units did not come up", zap.Strings("units", r.Owed), zap.Error(r.Err))
	}
	c.node.startLater()
	c.node.observeUnits(ctx)
}

// applied takes in an apply. A unit that did not come up, or not yet, is a fact
// about the node, which the verdict follows up.
func (c *changes) applied(ctx context.Context, step Step, r Result) {
	if r.changedNothing() {
		c.node.log.Error("apply", zap.Error(r.Err))
		c.refused(ctx, step, r)
		return
	}
	c.node.caller.await(step.Request)
	c.changed(ctx, r)
}

// refused handles an apply that has changed nothing. What the kernel refused
// may succeed later. A wrong configuration stays wrong until it changes.
func (c *changes) refused(ctx context.Context, step Step, r Result) {
	err := r.Err
	step.Request.fail(err)
	if c.cluster != nil {
		c.cluster.Prepare(ctx, config.Desired{})
	}
	if step.Hold != "" {
		c.node.release(step.Hold)
	}
	if step.Request != nil || apply.Transient(err) {
		c.node.alarms.soon(resumeAlarm, retryDelay)
		c.node.alarms.soon(aliveAlarm, 0) // The status says what the kernel lacks.
	}
	c.node.observed(r.Node)
	c.node.observeUnits(ctx)
	c.node.guard()
}

func (c *changes) rolledBack(ctx context.Context, step Step, r Result) {
	switch {
	case errors.Is(r.Err, apply.ErrUnfinished):
		step.Request.fail(r.Err)
		c.changed(ctx, r)
		return
	case r.changedNothing():
		step.Request.fail(r.Err)
		c.node.observeUnits(ctx)
		return
	}

	c.node.caller.await(nil)
	c.changed(ctx, r)
	step.Request.succeed(control.Outcome{
		Result:     control.Reverted,
		Generation: r.Generation.Name(),
		From:       step.Have.Name(),
		Digest:     r.Generation.Digest,
	})
}

// reapplied takes in that a generation is applied again which was held. It
// replaces what the source says, as an operator's apply does, and the caller
// waits for the verdict.
func (c *changes) reapplied(ctx context.Context, step Step, r Result) {
	if r.changedNothing() {
		step.Request.fail(r.Err)
		c.node.observeUnits(ctx)
		return
	}

	if r.Holds.Err != nil {
		c.node.warn("hold the source's configuration", r.Holds.Err)
	}
	c.node.caller.await(step.Request)
	c.changed(ctx, r)
}

// confirmed takes in that the change on trial stays.
func (c *changes) confirmed(ctx context.Context, step Step, r Result) {
	if r.Err != nil {
		step.Request.fail(r.Err)
		return
	}
	c.node.observed(r.Node)
	c.node.observeUnits(ctx)
	c.node.guard()
	m := r.Generation
	step.Request.succeed(control.Outcome{Result: control.Confirmed, Generation: m.Name(), Digest: m.Digest})
}
