package cluster

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"go.uber.org/zap"

	core "k8s.io/api/core/v1"

	"github.com/loam-os/loam/agent/inplace"
	"github.com/loam-os/loam/hint"
)

// Labels, annotations and the condition of an update in place (Gardener
// GEP-31).
const (
	updateCondition  = "InPlaceUpdate"
	drainedReason    = "ReadyForUpdate"
	resultLabel      = "node.machine.sapcloud.io/update-result"
	failedResult     = "failed"
	successResult    = "successful"
	reasonAnnotation = "node.machine.sapcloud.io/update-failed-reason"
	triedAnnotation  = "node-agent.gardener.cloud/updating-operating-system-version"
)

// A failed step is retried after stepRetry, a failed upgrade after upgradeRetry.
const (
	stepRetry    = time.Minute
	upgradeRetry = 10 * time.Minute
)

// unknownVersion is the version of a record that cannot be read. Every
// difference then needs a drained node.
const unknownVersion = "torn"

// updates is the state of updates in place.
type updates struct {
	record inplace.Record

	// hasRecord says that there is a record. The contract needs two
	// configurations with inPlaceUpdates to compare. unsaved is the error of
	// the last write of the record.
	hasRecord bool
	unsaved   error

	// rebooting says that the node is about to boot another release.
	rebooting bool

	// failure is a failure to be reported, nil for none. retryAt is when to
	// retry the step after it.
	failure *updateFailure
	retryAt time.Time
}

// updateFailure is why a step of the update to a configuration with that digest
// failed, and how long to wait before it is tried again.
type updateFailure struct {
	digest, reason string
	pause          time.Duration
}

// loadUpdates reads the record of an earlier run.
func loadUpdates(store credentialStore, log *zap.Logger) updates {
	record, ok, err := store.record()
	if err != nil {
		log.Error("updates in place", zap.Error(err), zap.String("hint", hint.Of(err)))
		return updates{record: inplace.Record{Version: unknownVersion}, hasRecord: true}
	}
	return updates{record: record, hasRecord: ok}
}

// save sets and writes the record. If the write fails, the record still applies
// and is written before the next step.
func (u *updates) save(root *os.Root, r inplace.Record) error {
	u.unsaved = newCredentialStore(root).saveRecord(r)
	u.record = r
	u.hasRecord = true
	return u.unsaved
}

// next returns the next step of the update to the pending configuration.
func (u updates) next(w world) inplace.Step {
	p := w.pending
	switch {
	case p == nil || p.update == nil || !u.hasRecord:
		return inplace.Nothing
	case !w.nodeKnown || w.status.Phase == "" || p.unclear != nil:
		return inplace.Await // Until the state of the Node is known.
	case w.node == nil:
		return inplace.Nothing
	}

	return inplace.Next(inplace.Node{
		Record:  u.record,
		Want:    *p.update,
		Offered: p.sum,
		Image:   w.status.ImageVersion,
		Tried:   w.node.Annotations[triedAnnotation],
		BootID:  w.bootID,
		Drained: isDrained(w.node),
		Applied: w.status.Version == p.sum && w.status.Change == nil,
	})
}

// isDrained reports whether a Node may be updated: its pods are gone, or the
// previous update failed. After a successful update the Node gets pods again,
// and the drainer removes the label before it drains the Node again.
func isDrained(n *core.Node) bool {
	switch n.Labels[resultLabel] {
	case failedResult:
		return true
	case successResult:
		return false
	}
	return slices.ContainsFunc(n.Status.Conditions, func(c core.NodeCondition) bool {
		return c.Type == updateCondition && c.Reason == drainedReason
	})
}

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
	case w.now.Before(u.retryAt):
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

	return updateDecision{action: updateRun, step: step}
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
		return outcome{}, u.save(c.env.Root, u.record)
	case updateFail:
		if u.failure != nil {
			u.retryAt = w.now.Add(u.failure.pause)
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
	if !isNew {
		return nil
	}

	changes := inplace.Changes{}
	if step == inplace.Configure {
		changes = inplace.Diff(record.Done, *w.pending.update, w.status.ImageVersion)
	}

	if changes.CPUManagerPolicy {
		// The kubelet does not start with the state of another policy.
		if err := newCredentialStore(c.env.Root).dir.Remove(cpuManagerState); err != nil {
			return err
		}
	}

	return u.save(c.env.Root, record)
}

// run runs a step.
func (c *updateController) run(
	ctx context.Context, w *world, step inplace.Step,
) (outcome, error) {
	want := *w.pending.update
	name := w.node.Name
	config := w.config

	switch step {
	case inplace.OS:
		return c.bootRelease(ctx, w, want.OS)
	case inplace.Tokens: // The token sync writes new ones as they appear.
		return outcome{}, c.done(w, step, want)
	case inplace.Report:
		if err := c.reportSuccess(ctx, w); err != nil {
			return outcome{}, err
		}
		return outcome{}, c.done(w, step, want)
	case inplace.Kubelet:
		c.start(w, step, func(ctx context.Context) error { return pollKubelet(ctx, c.env.Kubelet) })
	case inplace.Agent:
		c.start(w, step, func(ctx context.Context) error {
			_, err := joiner{c.env}.join(ctx, config, c.conn.who, "")
			return err
		})
	case inplace.Rejoin:
		c.start(w, step, func(ctx context.Context) error { return rejoinKubelet(ctx, c.env, config) })
	case inplace.Clear:
		c.start(w, step, func(ctx context.Context) error { return c.conn.api.deletePods(ctx, name) })
	}

	return outcome{}, nil
}

// start runs a step that takes time in the background and records its result.
func (c *updateController) start(
	w *world, step inplace.Step, job func(ctx context.Context) error,
) {
	w.updating = step
	digest := w.pending.sum
	want := *w.pending.update
	c.env.Log.Info("updating in place", zap.String("step", string(step)))

	c.conn.session.run(job, func(err error) {
		w.updating = inplace.Nothing
		if err == nil {
			err = c.done(w, step, want)
		}
		if err != nil {
			c.updates.failure = &updateFailure{digest, err.Error(), stepRetry}
		}
	})
}

// done records that a step towards want succeeded. With another certificate of
// the agent, the next session begins.
func (c *updateController) done(w *world, step inplace.Step, want inplace.Facts) error {
	if !c.updates.hasRecord {
		return nil // The configuration no longer asks for updates.
	}
	w.ending = w.ending || step == inplace.Agent
	return c.updates.save(c.env.Root, c.updates.record.After(step, want))
}

// bootRelease boots another release. The Node records its version and the record
// the boot ID: if the node comes back without that release, it is not tried
// again.
func (c *updateController) bootRelease(
	ctx context.Context, w *world, version string,
) (outcome, error) {
	if c.env.Upgrade == nil {
		return c.fail(ctx, w, "this node cannot update its operating system")
	}

	u := c.updates
	record := u.record
	record.Boot = w.bootID
	if err := u.save(c.env.Root, record); err != nil {
		return outcome{}, err
	}

	tried := desiredMeta{annotations: map[string]*string{triedAnnotation: &version}}
	if err := c.conn.api.patchNode(ctx, w, "", mergePatch, tried.patch(w.node)); err != nil {
		return outcome{}, err
	}

	u.rebooting = true
	digest := w.pending.sum
	c.conn.lasting.run(func(ctx context.Context) error {
		return c.env.Upgrade(ctx, version)
	}, func(err error) {
		if err != nil {
			u.rebooting = false
			u.failure = &updateFailure{digest, err.Error(), upgradeRetry}
		}
	})

	return outcome{}, nil
}

// reportSuccess reports on the Node that the update is done.
func (c *updateController) reportSuccess(ctx context.Context, w *world) error {
	c.inbox.event(false, "InPlaceUpdate", "the update in place is done")
	success := desiredMeta{
		labels:      map[string]*string{resultLabel: new(successResult)},
		annotations: map[string]*string{reasonAnnotation: nil, triedAnnotation: nil},
	}
	return c.conn.api.patchNode(ctx, w, "", mergePatch, success.patch(w.node))
}

// fail reports on the Node why an update cannot go on.
func (c *updateController) fail(
	ctx context.Context, w *world, reason string,
) (outcome, error) {
	failure := desiredMeta{
		labels:      map[string]*string{resultLabel: new(failedResult)},
		annotations: map[string]*string{reasonAnnotation: &reason},
	}
	err := c.conn.api.patchNode(ctx, w, "", mergePatch, failure.patch(w.node))
	return outcome{blocked: "update in place: " + reason}, err
}
