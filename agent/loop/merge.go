package loop

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/health"
)

// announce logs and publishes that a step begins, where that is of interest.
func (l *Loop) announce(before State, step Step) {
	switch step.Kind {
	case Conclude:
		if step.Verdict.Word == health.Bad {
			l.Log.Warn("the change made the node worse",
				zap.String("generation", step.Have.Name()),
				zap.String("reason", step.Verdict.Reason))
		}
	case Apply:
		l.Log.Info("applying",
			zap.String("digest", step.Apply.Desired.Digest()),
			zap.String("source", step.Apply.Source))
		l.alarms.clear(startAlarm)
		l.published.publish(l.state.Status())
		if before.Change.Pending != nil {
			l.counters.Applied(string(apply.Replaced), l.Now()-before.Change.Began)
		}
	case Restart:
		l.Log.Info("restarting on request", zap.Strings("units", step.Request.Restart))
	case RunReset:
		l.Log.Warn("reset", zap.Time("asked", before.Facts.Reset.At))
		l.published.publish(l.state.Status())
	}
}

// merge takes in the result of a step. It logs, answers callers, sets alarms,
// observes and publishes; what the result makes of the state is in
// [State.After]. A loop that ends only answers callers.
func (l *Loop) merge(ctx context.Context, step Step, r Result) {
	before := l.state
	l.state = before.After(step, r, l.Now())
	if ctx.Err() != nil && (step.Request == nil || step.Kind == Apply) {
		return
	}

	switch step.Kind {
	case Resume:
		l.mergeResume(ctx, r)
	case Conclude:
		l.mergeConclude(ctx, step, r)
	case Repair:
		l.mergeRepair(ctx, before, r)
	case Read:
		l.mergeRead(ctx, before, step, r)
	case Probe:
		if !r.Answers && len(l.state.Facts.Waits) > 0 {
			l.alarms.soon(probeAlarm, probeDelay)
		}
	case Start:
		l.mergeStart(ctx, r)
	case Prune:
		l.alarms.soon(idleAlarm, idleDelay)
		if r.Err != nil {
			l.warn("delete old generations", r.Err)
		}
	case Apply:
		l.mergeApply(ctx, step, r)
	case Rollback:
		l.mergeRollback(ctx, step, r)
	case Verify:
		l.reporter().repaired(repairedBy(r.Verified))
		step.Request.response <- response{report: reportOf(r.Verified), err: r.Err}
		l.observeUnits(ctx)
	case Restart:
		step.Request.response <- response{err: r.Err}
		l.observeUnits(ctx)
	case RunReset:
		l.mergeReset(ctx, step, r)
	}
}

func (l *Loop) mergeResume(ctx context.Context, r Result) {
	if r.Resumed.Mended != "" {
		l.warn("the current generation was damaged",
			errors.New("the node went on with "+r.Resumed.Mended))
	}
	switch {
	case l.state.Faults.Unfinished != nil:
		l.Log.Error("resume", zap.Error(r.Err))
		l.alarms.soon(resumeAlarm, retryDelay)
	case r.Err == nil && r.Resumed.Finished != "":
		l.Log.Info("finished an apply that was cut off",
			zap.String("generation", r.Resumed.Finished))
	}
	l.reporter().repaired(r.Resumed.Repaired)
	l.repairLater(r.Resumed.Drift)

	// A read that is due observes later. But before a verdict no unit may change any
	// more.
	l.observeGeneration()
	if !l.state.Due.Read || l.state.Change.Pending != nil {
		l.observeUnits(ctx)
	}
}

func (l *Loop) mergeConclude(ctx context.Context, step Step, r Result) {
	v, before := step.Verdict, step.Have
	stays := r.Err == nil && v.Word == health.Good
	if stays && len(v.Unwell) > 0 {
		l.Log.Warn("the change stays, and not all of its units are well",
			zap.String("reason", v.Reason))
		l.reporter().event("UnitNotWell", v.Reason)
	}

	l.mergeChanged(ctx, r.Err)
	if errors.Is(r.Err, apply.ErrUnfinished) {
		l.waiting.fail(r.Err)
		l.waiting = nil
	}
	if stays && l.Proven != nil {
		// It may take long, and changes nothing of the node.
		l.others.Go(func() { l.Proven(ctx) })
	}
	if r.Err == nil {
		outcome := outcomeOf(v, before, l.state.Current.Generation)
		l.counters.Applied(string(outcome), l.Now()-l.state.Change.Began)
	}
	l.answerVerdict(v, before)
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

// mergeChanged observes what the engine has made of the node.
func (l *Loop) mergeChanged(ctx context.Context, err error) {
	l.observeGeneration()
	name := l.state.Current.Generation.Name()
	switch {
	case errors.Is(err, apply.ErrUnfinished):
		l.Log.Error("apply", zap.Error(err))
		l.alarms.soon(resumeAlarm, retryDelay)
	case err != nil:
		l.Log.Warn("units did not come up",
			zap.String("generation", name),
			zap.Error(err))
	default:
		l.Log.Info("the node runs", zap.String("generation", name))
	}
	l.observeUnits(ctx)
}

func (l *Loop) mergeRepair(ctx context.Context, before State, r Result) {
	l.repairLater(r.Err)
	l.reporter().repaired(r.Paths)
	if len(r.Paths) > 0 || before.Faults.Drift != l.state.Faults.Drift {
		l.observeUnits(ctx)
	}
}

// repairLater has all managed paths looked at again if one cannot be repaired. A
// change is judged all the same.
func (l *Loop) repairLater(err error) {
	if err != nil {
		l.Log.Error("repair", zap.Error(err))
		l.alarms.soon(repairAlarm, retryDelay)
	}
}

func (l *Loop) mergeStart(ctx context.Context, r Result) {
	if r.Err != nil {
		l.Log.Warn("units did not come up", zap.Strings("units", r.Owed), zap.Error(r.Err))
	}
	l.startLater()
	l.observeUnits(ctx)
}

// mergeApply takes in an apply. A unit that did not come up, or not yet, is a fact
// about the node, which the verdict follows up.
func (l *Loop) mergeApply(ctx context.Context, step Step, r Result) {
	if r.changedNothing() {
		l.Log.Error("apply", zap.Error(r.Err))
		l.mergeRefused(ctx, step, r.Err)
		return
	}
	l.await(step.Request)
	l.mergeChanged(ctx, r.Err)
}

// mergeRefused takes in an apply that has changed nothing. What the kernel refused
// may go another time. What is wrong with the configuration stays so until it
// changes.
func (l *Loop) mergeRefused(ctx context.Context, step Step, err error) {
	step.Request.fail(err)
	if l.Cluster != nil {
		l.Cluster.Prepare(ctx, config.Desired{})
	}
	if step.Hold != "" {
		l.release(step.Hold)
	}
	if step.Request != nil || apply.Transient(err) {
		l.alarms.soon(resumeAlarm, retryDelay)
	}
	l.observeGeneration()
	l.observeUnits(ctx)
}

func (l *Loop) mergeRollback(ctx context.Context, step Step, r Result) {
	switch {
	case errors.Is(r.Err, apply.ErrUnfinished):
		step.Request.fail(r.Err)
		l.mergeChanged(ctx, r.Err)
		return
	case r.changedNothing():
		step.Request.fail(r.Err)
		l.observeUnits(ctx)
		return
	}

	l.await(nil)
	l.mergeChanged(ctx, r.Err)
	step.Request.succeed(control.Outcome{
		Result:     control.Reverted,
		Generation: r.Generation.Name(),
		From:       step.Have.Name(),
		Digest:     r.Generation.Digest,
	})
}

// confirm keeps the change on trial, which waits for that.
func (l *Loop) confirm(ctx context.Context, r *Request) {
	m, err := l.Engine.Confirm()
	if err != nil {
		r.fail(err)
		return
	}
	l.observeGeneration()
	l.observeUnits(ctx)
	r.succeed(control.Outcome{Result: control.Confirmed, Generation: m.Name(), Digest: m.Digest})
}

// answerVerdict tells the caller of the change to before what the verdict is.
func (l *Loop) answerVerdict(v health.Verdict, before generation.Manifest) {
	if l.waiting == nil {
		return
	}
	l.waiting.respond(verdictOutcome(l.state, v, before))
	l.waiting = nil
}

// verdictOutcome returns what the caller of the change to before learns.
func verdictOutcome(
	s State,
	v health.Verdict,
	before generation.Manifest,
) (control.Outcome, error) {
	now := s.Current.Generation
	o := control.Outcome{
		Result:     control.Applied,
		Generation: now.Name(),
		Digest:     now.Digest,
		Reason:     v.Reason,
	}
	switch {
	case v.Word == health.Confirm:
		o.Result, o.Until = control.Trying, s.Change.Pending.Try.Until
	case v.Word == health.Bad && now.Name() == before.Name():
		return control.Outcome{}, fmt.Errorf("applied, and not well: %s\n"+
			"hint: there is no generation before it to go back to", v.Reason)
	case v.Word == health.Bad:
		o.Result, o.From = control.Reverted, before.Name()
	}
	return o, nil
}

// reportOf returns a verification as the caller gets it.
func reportOf(v apply.Verified) control.VerifyReport {
	report := control.VerifyReport{Checked: v.Checked, Bytes: v.Bytes}
	for _, bad := range v.Bad {
		report.Bad = append(report.Bad, control.Finding(bad))
	}
	return report
}
