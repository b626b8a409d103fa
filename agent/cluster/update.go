package cluster

import (
	"context"
	"fmt"

	"github.com/loam-os/loam/agent/cluster/reach"
	"github.com/loam-os/loam/agent/inplace"
	"github.com/loam-os/loam/hint"
)

// updateAction is what to do about an update in place.
type updateAction string

const (
	updateWait updateAction = "wait"
	updateSave updateAction = "save the record"
	updateRun  updateAction = "run the step"
	updateFail updateAction = "report a failure"
)

// updateDecision is an action with its step, the reason of a failure, or what
// the update waits for.
type updateDecision struct {
	action  updateAction
	step    inplace.Step
	reason  string
	outcome outcome
}

// decide decides what to do next.
func (u updates) decide(w world) updateDecision {
	step := u.next(w)
	wait := func(out outcome) updateDecision {
		return updateDecision{action: updateWait, outcome: out}
	}
	fail := func(reason string) updateDecision {
		return updateDecision{action: updateFail, reason: reason}
	}

	switch {
	case w.updating != inplace.Nothing:
		return wait(outcome{blocked: "update in place: " + string(w.updating)})
	case step == inplace.Nothing || w.node == nil || w.status.Phase == "",
		u.rebooting || w.renewing || w.ending:
		return wait(outcome{})
	case w.now.Before(u.retryAt) && u.setBacks == w.setBacks:
		return wait(outcome{
			wake:    u.retryAt,
			blocked: "update in place: " + w.node.Annotations[reasonAnnotation],
		})
	case u.failure != nil && u.failure.digest == w.pending.sum:
		return fail(u.failure.reason)
	case u.unsaved != nil:
		return updateDecision{action: updateSave}
	}

	switch step {
	case inplace.Await:
		return wait(outcome{blocked: "update of " + u.waitsFor(w)})
	case inplace.Configure:
		s := w.status
		if s.Offered == w.pending.sum && s.Refused && s.Error != nil {
			return fail(s.Error.Problem)
		}
		return wait(outcome{})
	case inplace.GaveUp:
		return fail(fmt.Sprintf("the node came back with version %s, not %s",
			w.status.ImageVersion, w.pending.update.OS))
	}

	if step == inplace.OS && !mayRestart(w) {
		return wait(outcome{blocked: "update in place: a turn to restart"})
	}
	return updateDecision{action: updateRun, step: step}
}

// mayRestart reports whether the node may restart for its configuration: it has a
// turn, or its pool has no policy.
func mayRestart(w world) bool {
	return w.pending.policy == nil || w.turn.isForConfiguration()
}

// waitsFor says what the pending update changes and why it waits.
func (u updates) waitsFor(w world) string {
	if err := w.pending.unclear; err != nil {
		return hint.Line(err)
	}

	changes := inplace.Diff(u.record.Done, *w.pending.update, w.status.ImageVersion).String()
	if w.node.Labels[resultLabel] == successResult {
		return changes + " waits for the Node to be drained again, without its label " + resultLabel
	}
	return changes + " waits for the Node to be drained"
}

// begun returns the record for the time from which the pending configuration is
// released, and whether it is another: an update begins with it, or an earlier
// one ends. step is the next step.
func (u updates) begun(step inplace.Step, w world) (r inplace.Record, isNew bool) {
	r = u.record
	switch {
	case step == inplace.Configure && r.Version != w.pending.sum:
		r.Version = w.pending.sum
	case r.Version != "" && r.Version != unknownVersion && r.Version != w.pending.sum:
		r.Version = ""
	default:
		return r, false
	}

	r.Cleared = false
	return r, true
}

// cpuManagerState is the kubelet's record of its CPU manager policy.
const cpuManagerState = "var/lib/kubelet/cpu_manager_state"

// updateController updates the node in place.
type updateController struct {
	updates *updates
	env     Env
	conn    connection
	inbox   inbox
}

func (c *updateController) step(ctx context.Context, w *world) (outcome, error) {
	u := c.updates
	d := u.decide(*w)
	switch d.action {
	case updateSave:
		return outcome{}, u.save(c.env.records(), u.record)
	case updateFail:
		if u.failure != nil {
			u.retryAt = w.now.Add(u.failure.pause)
			u.setBacks = w.setBacks
			u.failure = nil
		}
		return c.fail(ctx, w, d.reason)
	case updateRun:
		return c.run(ctx, w, d.step)
	}

	return d.outcome, nil
}

// begin records that an update begins with the pending configuration, or that
// an earlier one ends, before anything changes for it.
func (c *updateController) begin(step inplace.Step, w world) error {
	u := c.updates
	record, isNew := u.begun(step, w)
	if !isNew && u.unsaved != nil {
		return u.save(c.env.records(), record)
	}
	if !isNew {
		return nil
	}

	changes := inplace.Changes{}
	if step == inplace.Configure {
		changes = inplace.Diff(record.Done, *w.pending.update, w.status.ImageVersion)
	}

	if changes.CPUManagerPolicy {
		// The kubelet does not start with the state of another policy.
		if err := c.env.records().Remove(cpuManagerState); err != nil {
			return reach.Untried(err)
		}
	}

	return u.save(c.env.records(), record)
}
