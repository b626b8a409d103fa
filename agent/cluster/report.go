package cluster

import (
	"context"
	"os"
	"slices"
	"time"

	core "k8s.io/api/core/v1"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/cluster/credentials"
	"github.com/loam-os/loam/agent/status"
)

// report is the input from which the Node was last reported.
type report struct {
	node    *core.Node
	pending *pendingConfig

	// at is the uptime of the status.
	at time.Duration
}

func reportOf(w world) report { return report{w.node, w.pending, time.Duration(w.status.Uptime)} }

// isFinal reports whether another report needs another input. A configuration
// that is not ready, or units that are starting, may change without a new
// status.
func isFinal(w world) bool {
	return w.ready == w.status.Version &&
		!slices.ContainsFunc(w.status.Units, func(u status.Unit) bool { return !u.Settled })
}

// reportedStatus returns the status with the configuration that the Node may
// report as applied.
func reportedStatus(w world) status.Status {
	s := w.status
	s.Version = w.ready
	return s
}

// reportController updates the Node's labels, annotations and conditions.
type reportController struct {
	api    *api
	root   *os.Root
	events eventWriter
	log    *zap.Logger

	// refusals outlives the session.
	refusals *refusalRecord

	// last is the last report that left nothing to do.
	last report

	// unproven is a generation that was reported as applied and may still be
	// reverted; "" if none.
	unproven string
}

func (c *reportController) step(ctx context.Context, w *world) (outcome, error) {
	if w.node == nil || w.status.Phase == "" || c.last == reportOf(*w) {
		return outcome{}, nil
	}

	if err := c.reportMeta(ctx, w); err != nil {
		return outcome{}, err
	}

	c.announce(w)

	if w.ready != "" {
		if err := credentials.Open(c.root).RemoveJoinFiles(); err != nil {
			c.log.Error("remove the files for joining", zap.Error(err))
		}
		w.reported = w.ready
	}

	if err := c.reportConditions(ctx, w); err != nil {
		return outcome{}, err
	}

	if isFinal(*w) {
		c.last = reportOf(*w)
	}
	return outcome{}, nil
}

// reportMeta writes labels and annotations.
func (c *reportController) reportMeta(ctx context.Context, w *world) error {
	desired := desiredMetaOf(w.labelled(), w.node, reportedStatus(*w), w.pending)
	before := w.node.Annotations[appliedAnnotation]
	if err := c.api.patchNode(ctx, w, "", mergePatch, desired.patch(w.node)); err != nil {
		return err
	}

	if applied := desired.annotations[appliedAnnotation]; applied != nil && before != *applied {
		c.unproven = w.status.Generation
	}
	return nil
}

// announce writes the Event that a configuration is applied, once it has proven
// itself. Gardener's checksum does not wait for that, but an Event stays when the
// node goes back.
func (c *reportController) announce(w *world) {
	same := w.status.Generation == c.unproven
	switch {
	case c.unproven == "", same && w.status.Change != nil:
		return
	case same:
		c.events.write(w.node, w.now, event{core.EventTypeNormal, "OSCApplied",
			"the configuration is applied: generation " + w.status.Generation})
		w.announced = w.status.Generation
	}
	c.unproven = ""
}

// reportConditions writes the conditions, and an Event for each reason of a
// refusal.
func (c *reportController) reportConditions(ctx context.Context, w *world) error {
	refused := refusalOf(w.status, w.pending)
	if refused != (refusal{}) &&
		c.refusals.isNew(string(w.node.UID), w.pending.sum, refused.reason) {
		c.events.write(w.node, w.now, refused.event())
	}

	patch := conditionPatch(w.node, w.status, refused, w.uptime, w.now)
	return c.api.patchNode(ctx, w, "status", strategicPatch, patch)
}
