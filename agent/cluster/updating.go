package cluster

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	core "k8s.io/api/core/v1"

	"github.com/loam-os/loam/agent/inplace"
	"github.com/loam-os/loam/agent/osc"
	"github.com/loam-os/loam/agent/status"
)

// Labels, annotations and the condition by which a Node is updated in place
// (Gardener GEP-31).
const (
	updateCondition  = "InPlaceUpdate"
	drainedReason    = "ReadyForUpdate"
	resultLabel      = "node.machine.sapcloud.io/update-result"
	failedResult     = "failed"
	successResult    = "successful"
	reasonAnnotation = "node.machine.sapcloud.io/update-failed-reason"
	triedAnnotation  = "node-agent.gardener.cloud/updating-operating-system-version"
)

const (
	// kubeletLimit is when a kubelet that does not get well is told of, kubeletPause
	// how often it is asked, updatePause when a step that failed is done again.
	kubeletLimit = 5 * time.Minute
	kubeletPause = 5 * time.Second
	updatePause  = time.Minute
)

// update is an update in place as far as the agent knows; it outlives sessions.
type update struct {
	record inplace.Record
	// known says that there is a record: the contract needs two configurations that
	// speak of updates in place.
	known bool
	// want is what the configuration that is offered says; nil for nothing.
	want *inplace.Facts
	// busy says that a step is under way, again when one that failed is due,
	// rebooting that the node is to start another system.
	busy      bool
	again     time.Time
	rebooting bool
	// refusal is why it does not.
	refusal string
}

// factsOf is what a configuration asks for, nil for nothing. What is wrong with
// the text, who decodes it to apply it says.
func (c *Cluster) factsOf(text []byte) *inplace.Facts {
	if !bytes.Contains(text, []byte("inPlaceUpdates")) {
		return nil // It takes time to decode.
	}
	asked, _ := osc.Decode(dataKey, text)
	u := asked.Update()
	if u == nil {
		return nil
	}
	facts, err := inplace.FactsOf(*u, asked.Inline(inplace.KubeletConfig, c.hostname()))
	if err != nil {
		c.Log.Warn("updates in place", zap.Error(err))
		return nil
	}
	return &facts
}

// nextStep is what comes next of the update that is offered.
func (s *session) nextStep() inplace.Step {
	switch {
	case s.want == nil || s.offer == nil || !s.known:
		return inplace.Nothing
	case !s.looked || s.status.Phase == "":
		return inplace.Await // Until it is known how the Node stands.
	case s.node == nil:
		return inplace.Nothing
	}
	tried := s.node.Annotations[triedAnnotation]
	if s.rebooting {
		tried = ""
	}
	return inplace.Next(inplace.Node{
		Record: s.record, Want: *s.want, Offered: s.offer.version, Image: s.status.ImageVersion, Tried: tried,
		Drained: drained(s.node), Applied: s.status.Version == s.offer.version,
	})
}

// drained reports whether a Node may be updated: its pods are gone, or an update
// before failed.
func drained(n *core.Node) bool {
	return n.Labels[resultLabel] == failedResult || slices.ContainsFunc(n.Status.Conditions, func(c core.NodeCondition) bool {
		return c.Type == updateCondition && c.Reason == drainedReason
	})
}

// updateInPlace does the next step of an update, beside the session.
func (s *session) updateInPlace(ctx context.Context) error {
	step := s.nextStep()
	switch {
	case step == inplace.Nothing || s.node == nil || s.busy || s.rebooting || s.over || s.status.Phase == "":
		return nil
	case s.Now().Before(s.again):
		s.waits("update in place: " + s.node.Annotations[reasonAnnotation])
		s.soon(s.again)
		return nil
	}
	name, want := s.node.Name, *s.want
	switch step {
	case inplace.Await:
		s.waits("update of " + inplace.Diff(s.record.Done, want, s.status.ImageVersion).String() + " waits for the Node to be drained")
	case inplace.Configure:
		if s.status.Offered == s.offer.version && s.status.Phase == status.Failed && s.status.Error != nil {
			return s.failUpdate(ctx, s.status.Error.Problem)
		}
	case inplace.Kubelet:
		s.beside(step, s.kubeletWell)
	case inplace.OS:
		return s.updateOS(ctx, want.OS)
	case inplace.GaveUp:
		return s.failUpdate(ctx, cmp.Or(s.refusal, fmt.Sprintf("the node came back with version %s, not %s", s.status.ImageVersion, want.OS)))
	case inplace.Agent:
		s.beside(step, func(ctx context.Context) error {
			_, err := s.join(ctx, s.keep(), s.who, "")
			return err
		})
	case inplace.Rejoin:
		s.beside(step, s.rejoinKubelet)
	case inplace.Tokens: // They are watched: a new one is in its file as soon as there is one.
		return s.did(step)
	case inplace.Finish:
		s.beside(step, func(ctx context.Context) error { return s.api.deletePods(ctx, name) })
	}
	return nil
}

// beside does a step of an update and takes in how it went.
func (s *session) beside(step inplace.Step, do func(ctx context.Context) error) {
	s.busy = true
	s.Log.Info("updating in place", zap.String("step", string(step)))
	s.group.Go(func() {
		err := do(s.whole)
		s.post(s.whole, func() {
			s.busy = false
			if err == nil {
				err = s.did(step)
			}
			if err != nil && s.whole.Err() == nil {
				s.again = s.Now().Add(updatePause)
				s.answered(s.failUpdate(s.whole, err.Error()))
			}
		})
	})
}

// did keeps that a step succeeded. The Node says so after the last.
func (s *session) did(step inplace.Step) error {
	switch step {
	case inplace.Agent:
		s.over = true
	case inplace.Finish:
		if err := s.change(s.whole, wanted{
			labels:      map[string]*string{resultLabel: new(successResult)},
			annotations: map[string]*string{reasonAnnotation: nil, triedAnnotation: nil},
		}); err != nil {
			return err
		}
		s.Event(false, "InPlaceUpdate", "the update in place is done")
	}
	return s.keepRecord(s.record.After(step, *s.want))
}

// begin notes that the update to what is offered has begun, before anything is
// changed for it.
func (s *session) begin() error {
	if inplace.Diff(s.record.Done, *s.want, s.status.ImageVersion).CPUManagerPolicy {
		if err := s.keep().dir.Remove(cpuManagerState); err != nil { // The kubelet does not start with that of another policy.
			return err
		}
	}
	r := s.record
	r.Version = s.offer.version
	return s.keepRecord(r)
}

func (s *session) keepRecord(r inplace.Record) error {
	if err := s.keep().saveRecord(r); err != nil {
		return err
	}
	s.record, s.known = r, true
	return nil
}

// firstRecord is kept when the node runs the first configuration that speaks of
// updates in place, and removed with the last.
func (s *session) firstRecord() error {
	switch {
	case s.want != nil && !s.known:
		return s.keepRecord(inplace.Record{Done: *s.want})
	case s.want == nil && s.known:
		s.record, s.known = inplace.Record{}, false
		return s.keep().dir.Remove(recordName)
	}
	return nil
}

// updateOS has another system started. The Node says which was tried: if the node
// comes back without, it is not tried again.
func (s *session) updateOS(ctx context.Context, version string) error {
	if s.Upgrade == nil {
		return s.failUpdate(ctx, "this node cannot update its operating system")
	}
	if err := s.change(ctx, wanted{annotations: map[string]*string{triedAnnotation: &version}}); err != nil {
		return err
	}
	c := s.Cluster // It goes on in the next session.
	c.rebooting = true
	c.others.Go(func() {
		if err := c.Upgrade(c.life, version); err != nil {
			c.post(c.life, func() { c.rebooting, c.refusal = false, err.Error() })
		}
	})
	return nil
}

// failUpdate has the Node say why an update cannot go on.
func (s *session) failUpdate(ctx context.Context, reason string) error {
	s.waits("update in place: " + reason)
	return s.change(ctx, wanted{
		labels:      map[string]*string{resultLabel: new(failedResult)},
		annotations: map[string]*string{reasonAnnotation: &reason},
	})
}

// change makes the Node as wanted.
func (s *session) change(ctx context.Context, w wanted) error {
	if s.node == nil {
		return errors.New("the Node is gone")
	}
	patch := w.patch(s.node)
	if patch == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	n, err := s.api.patchNode(ctx, s.node.Name, "", mergePatch, patch)
	if err == nil {
		s.node = n
	}
	return err
}

// kubeletWell waits until the kubelet says that it is.
func (s *session) kubeletWell(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, kubeletLimit)
	defer cancel()
	for {
		err := s.Kubelet(ctx)
		if err == nil {
			return nil
		}
		if pause(ctx, kubeletPause); ctx.Err() != nil {
			return fmt.Errorf("kubelet is not well after the update: %w", err)
		}
	}
}

// rejoinKubelet has the kubelet ask for a certificate of the new authority, with
// the one it has.
func (s *session) rejoinKubelet(ctx context.Context) error {
	if err := s.keep().rejoin(s.Config); err != nil {
		return err
	}
	if err := s.Restart(ctx, []string{kubeletUnit}); err != nil {
		return err
	}
	return s.kubeletWell(ctx)
}
