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

// report is what the Node's words follow from.
type report struct {
	node  *core.Node
	offer *offer
	// at is the status's, uptime.
	at time.Duration
}

// reportNode makes the Node say how the node stands.
func (s *session) reportNode(ctx context.Context) error {
	if s.node == nil || s.status.Phase == "" ||
		s.reported == (report{s.node, s.offer, s.status.Uptime}) {
		return nil
	}

	said := s.status
	said.Version = s.proven()

	w := wantedOf(s.labelled(), s.node, said, s.offer)
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

	if said.Version != "" {
		if err := s.keep().joined(); err != nil {
			s.Log.Error("remove what was for joining", zap.Error(err))
		}
	}

	if s.offer != nil && said.Version == s.offer.sum {
		s.sound = said.Version
		if err := s.firstRecord(); err != nil {
			s.Log.Error("updates in place", zap.Error(err))
		}
	}

	refused := refusalOf(s.status, s.offer)
	s.tellRefusal(refused)
	if patch := conditionPatch(s.node, s.status, refused, s.Uptime(), s.Now()); patch != nil {
		n, err := s.api.patchNode(ctx, s.node.Name, "status", strategicPatch, patch)
		if err != nil {
			return err
		}
		s.node = n
		s.seen = true
	}

	// What waits, or units that are on their way, may come to be otherwise by
	// itself.
	if said.Version == s.status.Version &&
		!slices.ContainsFunc(s.status.Units, func(u status.Unit) bool { return !u.Settled }) {
		s.reported = report{s.node, s.offer, s.status.Uptime}
	}

	return nil
}

// restart is what the Node's annotation asks for: what is under way, and what
// is done and to be taken away there.
type restart struct{ doing, done string }

// restartUnits does what the Node's annotation asks for, beside the session,
// and then takes it away.
func (s *session) restartUnits(ctx context.Context) error {
	if s.node == nil {
		return nil
	}

	asked := s.node.Annotations[restartAnnotation]
	if asked != s.restart.done {
		s.restart.done = "" // It was withdrawn.
	}

	switch asked {
	case "", s.restart.doing:
		return nil
	case s.restart.done:
		err := s.change(ctx, wanted{annotations: map[string]*string{restartAnnotation: nil}})
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

// restartBeside restarts units beside the session, even if that ends, and tells
// how it went; then has the session's goroutine call it, unless it is nil.
func (c *Cluster) restartBeside(units []string, then func()) {
	c.others.Go(func() {
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
