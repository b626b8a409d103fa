package cluster

import (
	"context"
	"slices"
	"strings"
	"time"

	core "k8s.io/api/core/v1"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/status"
)

// report is the input from which the Node was last reported.
type report struct {
	node  *core.Node
	offer *pendingConfig
	// at is the uptime of the status.
	at time.Duration
}

// reportNode updates the Node's labels, annotations and conditions.
func (s *session) reportNode(ctx context.Context) error {
	if s.node == nil || s.status.Phase == "" ||
		s.reported == (report{s.node, s.pending, s.status.Uptime}) {
		return nil
	}

	reported := s.status
	reported.Version = s.readyDigest()

	w := desiredMetaOf(s.labelled(), s.node, reported, s.pending)
	if patch := w.patch(s.node); patch != nil {
		n, err := s.api.patchNode(ctx, s.node.Name, "", mergePatch, patch)
		if err != nil {
			return err
		}

		applied := w.annotations[appliedAnnotation]
		if applied != nil && s.node.Annotations[appliedAnnotation] != *applied {
			s.event(n, core.EventTypeNormal, "OSCApplied",
				"the configuration is applied: generation "+s.status.Generation)
		}

		s.node = n
		s.seen = true
	}

	if reported.Version != "" {
		if err := s.store().removeJoinFiles(); err != nil {
			s.Log.Error("remove the files for joining", zap.Error(err))
		}
	}

	if s.pending != nil && reported.Version == s.pending.sum {
		s.reportedDigest = reported.Version
		if err := s.firstRecord(); err != nil {
			s.Log.Error("updates in place", zap.Error(err))
		}
	}

	refused := refusalOf(s.status, s.pending)
	s.reportRefusal(refused)
	if patch := conditionPatch(s.node, s.status, refused, s.Uptime(), s.Now()); patch != nil {
		n, err := s.api.patchNode(ctx, s.node.Name, "status", strategicPatch, patch)
		if err != nil {
			return err
		}
		s.node = n
		s.seen = true
	}

	// A configuration that is not ready, or units that are starting, may change
	// without a new status.
	if reported.Version == s.status.Version &&
		!slices.ContainsFunc(s.status.Units, func(u status.Unit) bool { return !u.Settled }) {
		s.reported = report{s.node, s.pending, s.status.Uptime}
	}

	return nil
}

// restart is the state of the units that the Node's annotation asks to restart.
// doing is the annotation being handled, done the handled annotation that must
// be removed.
type restart struct{ doing, done string }

// restartUnits restarts the units that the Node's annotation names, in the
// background, and then removes the annotation.
func (s *session) restartUnits(ctx context.Context) error {
	if s.node == nil {
		return nil
	}

	asked := s.node.Annotations[restartAnnotation]
	if asked != s.restart.done {
		s.restart.done = "" // The request was withdrawn.
	}

	switch asked {
	case "", s.restart.doing:
		return nil
	case s.restart.done:
		err := s.change(ctx, desiredMeta{annotations: map[string]*string{restartAnnotation: nil}})
		if err == nil {
			s.restart.done = ""
		}
		return err
	default:
		c := s.Cluster
		c.restart.doing = asked
		c.restartBeside(restarts(asked), func() { c.restart = restart{done: asked} })
		return nil
	}
}

// restartBeside restarts units in the background, even if the session ends, and
// records the result as an Event. Then the session's goroutine calls then,
// unless it is nil.
func (c *Cluster) restartBeside(units []string, then func()) {
	c.background.Go(func() {
		if len(units) > 0 {
			if err := c.Restart(c.life, units); err != nil {
				c.Event(true, restartReason, err.Error())
			} else {
				c.Event(false, restartReason, "restarted "+strings.Join(units, ", "))
			}
		}
		if then != nil {
			c.post(c.life, then)
		}
	})
}
