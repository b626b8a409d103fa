package cluster

import (
	"context"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/inplace"
	"github.com/loam-os/loam/hint/redact"
)

// run runs a step.
func (c *updateController) run(
	ctx context.Context, w *world, step inplace.Step,
) (outcome, error) {
	want := *w.pending.update
	name := w.node.Name
	config := w.config

	var job func(ctx context.Context) error
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
		job = func(ctx context.Context) error { return pollKubelet(ctx, c.env.Kubelet) }
	case inplace.Agent:
		job = func(ctx context.Context) error {
			_, err := c.env.joiner().Join(ctx, config.target(), c.conn.who, "")
			return err
		}
	case inplace.Rejoin:
		job = func(ctx context.Context) error { return rejoinKubelet(ctx, c.env, config) }
	case inplace.Clear:
		job = func(ctx context.Context) error {
			api, err := newKubeletAPI(c.env, config, c.conn.who, name)
			if err != nil {
				return err
			}
			defer api.close()
			return api.deletePods(ctx)
		}
	}

	if job != nil {
		c.start(w, step, job)
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
			c.updates.failure = &updateFailure{
				digest: digest,
				reason: err.Error(),
				pause:  stepRetry,
			}
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
	return c.updates.save(c.env.records(), c.updates.record.After(step, want))
}

// bootRelease boots another release. The Node records its version and the
// record the boot ID: if the node comes back without that release, it is not
// tried again.
func (c *updateController) bootRelease(
	ctx context.Context, w *world, version string,
) (outcome, error) {
	if c.env.Upgrade == nil {
		return c.fail(ctx, w, "this node cannot update its operating system")
	}

	u := c.updates
	record := u.record
	record.Boot = w.bootID
	if err := u.save(c.env.records(), record); err != nil {
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
			u.failure = &updateFailure{
				digest: digest,
				reason: err.Error(),
				pause:  upgradeRetry,
			}
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
	reason = redact.URLs(reason) // Whoever reads the Node sees it.
	failure := desiredMeta{
		labels:      map[string]*string{resultLabel: new(failedResult)},
		annotations: map[string]*string{reasonAnnotation: &reason},
	}
	err := c.conn.api.patchNode(ctx, w, "", mergePatch, failure.patch(w.node))
	return outcome{blocked: "update in place: " + reason}, err
}
