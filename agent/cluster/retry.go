package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/inplace"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/turns"
)

// retryReason is the reason of Events about what is tried once more.
const retryReason = "RolloutRetry"

// retry is what the node does about one target that it is to try once more.
type retry struct {
	// configuration is set for the pending configuration, version is that of a
	// system.
	configuration bool
	version       string

	// ignored is why the node does nothing.
	ignored string
}

// retryOf returns what to do about a target that has failed. update is the next
// step of an update in place.
func retryOf(w world, target string, update inplace.Step) retry {
	if target == w.pending.target && update == inplace.GaveUp {
		return retry{ignored: "the update in place has booted its system in vain: " +
			"`loam upgrade --again` on the node tries that once more"}
	}
	if target == w.pending.target && w.turn.kept.Failed == w.pending.sum {
		return retry{configuration: true}
	}

	var failed []status.FailedSystem
	if u := w.status.Upgrade; u != nil {
		failed = u.Failed
	}
	at := slices.IndexFunc(failed, func(f status.FailedSystem) bool {
		return turns.SystemTarget(f.RootHash) == target
	})
	switch {
	case at >= 0:
		return retry{version: failed[at].Version}
	case target == w.pending.target:
		return retry{ignored: "it has not failed here"}
	}
	return retry{ignored: "it is not the configuration of the node any more, and no system that " +
		"has failed here"}
}

// isRetried reports whether the pending configuration has failed, and waits to be
// tried once more.
func isRetried(w world) bool {
	return w.pending != nil && w.turn.kept.Retry == w.pending.sum
}

// retryController removes the Node's annotation that asks to try once more what
// has failed, and then lets the node ask for its turn again. The annotation goes
// first, so a node that dies in between tries nothing more than once. What the
// Node remembers of the failure goes last, so a retry that was lost can be asked
// for again.
type retryController struct {
	// patch sets annotations of the own Node; nil removes one.
	patch   func(ctx context.Context, w *world, annotations map[string]any) error
	env     Env
	jobs    jobs
	inbox   inbox
	updates *updates
}

func (c *retryController) step(ctx context.Context, w *world) (outcome, error) {
	if w.node == nil || w.pending == nil || w.status.Phase == "" { // It is not known yet.
		return outcome{}, nil
	}

	annotation, ok := w.node.Annotations[retryAnnotation]
	if !ok {
		return outcome{}, nil
	}
	if err := c.patch(ctx, w, map[string]any{retryAnnotation: nil}); err != nil {
		return outcome{}, err
	}

	var errs []error
	for target := range strings.SplitSeq(annotation, ",") {
		target = strings.TrimSpace(target)
		r := retryOf(*w, target, c.updates.next(*w))
		switch {
		case r.configuration:
			errs = append(errs, c.configuration(ctx, w))
		case r.version != "":
			c.system(w, target, r.version)
		default:
			c.inbox.event(true, retryReason,
				fmt.Sprintf("%.12s is not tried once more: %s", target, r.ignored))
		}
	}
	return outcome{}, errors.Join(errs...)
}

// configuration lets the node ask for a turn for the pending configuration, as if
// it had not failed. It stays held until then.
func (c *retryController) configuration(ctx context.Context, w *world) error {
	if err := c.save(w, w.turn.kept.Again()); err != nil {
		return err
	}
	c.inbox.event(false, retryReason,
		fmt.Sprintf("configuration %.12s is tried once more", w.pending.target))
	return c.forget(ctx, w, failedAnnotation, w.pending.target)
}

// system brings the system once more that has failed. It asks for its turn when it
// is ready.
func (c *retryController) system(w *world, target, version string) {
	if c.env.Again == nil {
		c.inbox.event(true, retryReason, "this node cannot update its operating system")
		return
	}

	c.inbox.event(false, retryReason, fmt.Sprintf("system %s is tried once more", version))
	c.jobs.run(func(ctx context.Context) error {
		return c.env.Again(ctx, version)
	}, func(err error) {
		if err != nil {
			c.inbox.event(true, retryReason, fmt.Sprintf("system %s is not tried once more: %.*s",
				version, maxMessage, err))
			return
		}
		ctx, cancel := context.WithTimeout(c.jobs.ctx, requestTimeout)
		defer cancel()
		if err := c.forget(ctx, w, failedSystemAnnotation, target); err != nil {
			c.env.Log.Warn("forget the failure", zap.Error(err)) // It ends with the turn.
		}
	})
}

// forget removes what the Node remembers of the failure of target.
func (c *retryController) forget(
	ctx context.Context, w *world, annotation, target string,
) error {
	if w.node == nil {
		return nil
	}
	f, err := turns.ParseFailure(w.node.Annotations[annotation])
	if err != nil || f.Target != target {
		return nil
	}
	return c.patch(ctx, w, map[string]any{annotation: nil})
}

// begin reports whether the pending configuration, which is released now, has
// failed before. From here on it is a change like any other: if it fails, nothing
// tries it once more.
func (c *retryController) begin(w *world) (bool, error) {
	if !isRetried(*w) {
		return false, nil
	}
	turn := w.turn.kept
	turn.Retry = ""
	return true, c.save(w, turn)
}

// apply has the configuration applied that was released, although the node holds
// it since it has failed.
func (c *retryController) apply(w *world) {
	if c.env.Apply == nil {
		return
	}
	w.turn.retrying = true
	c.jobs.run(c.env.Apply, func(err error) {
		w.turn.retrying = false
		if err != nil {
			c.env.Log.Warn("the configuration has failed once more", zap.Error(err))
		}
	})
}

// save replaces the record of the turn.
func (c *retryController) save(w *world, t turns.Turn) error {
	if err := saveTurn(c.env.records(), turnRecord{t, w.turn.byPolicy}); err != nil {
		return err
	}
	w.turn.kept = t
	return nil
}
