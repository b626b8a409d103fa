package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	core "k8s.io/api/core/v1"

	"github.com/loam-os/loam/agent/inplace"
	"github.com/loam-os/loam/agent/osc"
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
	// kubeletLimit is when a kubelet that does not get well is told of,
	// kubeletTry how long it has for an answer, kubeletPause how often it is
	// asked, updatePause when a step that failed is done again, upgradePause
	// when an upgrade is.
	kubeletLimit = 5 * time.Minute
	kubeletTry   = 10 * time.Second
	kubeletPause = 5 * time.Second
	updatePause  = time.Minute
	upgradePause = 10 * time.Minute
)

// update is an update in place as far as the agent knows.
type update struct {
	record inplace.Record

	// known says that there is a record: the contract needs two configurations
	// that speak of updates in place. unsaved is what is to be done about it on
	// disk.
	known   bool
	unsaved error

	// want is what the configuration that is offered says, nil for nothing;
	// unclear why that cannot be told.
	want    *inplace.Facts
	unclear error

	// busy says that the step doing is under way, again when one that failed is
	// due, rebooting that the node is to start another system.
	busy      bool
	doing     inplace.Step
	again     time.Time
	rebooting bool

	// refusal is why it does not, to be told.
	refusal string
}

// torn is the version of an update of which nothing is known: whatever differs
// needs a drained node.
const torn = "torn"

// load takes up what an earlier run has kept.
func (u *update) load(k keep, log *zap.Logger) {
	var err error
	u.record, u.known, err = k.record()
	if err != nil {
		log.Error("updates in place", zap.Error(err))
		u.record = inplace.Record{Version: torn}
		u.known = true
	}
}

// factsOf is what a configuration asks for, nil for nothing.
func (c *Cluster) factsOf(text []byte) (*inplace.Facts, error) {
	if !bytes.Contains(text, []byte("inPlaceUpdates")) {
		return nil, nil // It takes time to decode.
	}

	asked, _ := osc.Decode(dataKey, text) // What is wrong with it, who applies it says.
	u := asked.Update()
	if u == nil {
		return nil, nil
	}

	facts, err := inplace.FactsOf(*u, asked.Inline(inplace.KubeletConfig, c.hostname()))
	return &facts, err
}

// nextStep is what comes next of the update that is offered.
func (s *session) nextStep() inplace.Step {
	u := &s.update
	switch {
	case u.want == nil || s.offer == nil || !u.known:
		return inplace.Nothing
	case !s.looked || s.status.Phase == "" || u.unclear != nil:
		return inplace.Await // Until it is known how the Node stands.
	case s.node == nil:
		return inplace.Nothing
	}

	return inplace.Next(inplace.Node{
		Record:  u.record,
		Want:    *u.want,
		Offered: s.offer.sum,
		Image:   s.status.ImageVersion,
		Tried:   s.node.Annotations[triedAnnotation],
		BootID:  s.BootID,
		Drained: drained(s.node),
		Applied: s.status.Version == s.offer.sum && s.status.Change == nil,
	})
}

// drained reports whether a Node may be updated: its pods are gone, or an
// update before failed. After one that succeeded it is about to get pods again:
// the label goes before the Node is drained anew.
func drained(n *core.Node) bool {
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

// waitsForDrain says what an update waits for on a Node that is not drained.
func waitsForDrain(n *core.Node) string {
	if n != nil && n.Labels[resultLabel] == successResult {
		return " waits for the Node to be drained again, without its label " + resultLabel
	}
	return " waits for the Node to be drained"
}

// updateInPlace does the next step of an update, beside the session.
func (s *session) updateInPlace(ctx context.Context) error {
	step := s.nextStep()
	u := &s.update
	switch {
	case u.busy:
		s.waits("update in place: " + string(u.doing))
		return nil
	case step == inplace.Nothing || s.node == nil || u.rebooting || s.renewing || s.over ||
		s.status.Phase == "":
		return nil
	case s.Now().Before(u.again):
		s.waits("update in place: " + s.node.Annotations[reasonAnnotation])
		s.soon(u.again)
		return nil
	case u.unsaved != nil:
		return s.keepRecord(u.record)
	case u.refusal != "":
		refusal := u.refusal
		u.refusal, u.again = "", s.Now().Add(upgradePause)
		return s.failUpdate(ctx, refusal)
	}

	want := *u.want
	switch step {
	case inplace.Await:
		why := inplace.Diff(u.record.Done, want, s.status.ImageVersion).String() +
			waitsForDrain(s.node)
		if u.unclear != nil {
			why = u.unclear.Error()
		}
		s.waits("update of " + why)
	case inplace.Configure:
		if s.status.Offered == s.offer.sum && s.status.Refused && s.status.Error != nil {
			return s.failUpdate(ctx, s.status.Error.Problem)
		}
	case inplace.OS:
		return s.updateOS(ctx, want.OS)
	case inplace.GaveUp:
		return s.failUpdate(ctx,
			fmt.Sprintf("the node came back with version %s, not %s",
				s.status.ImageVersion, want.OS))
	case inplace.Tokens: // They are watched: a new one is in its file as soon as there is one.
		return s.did(step, want)
	case inplace.Tell:
		if err := s.tellUpdated(ctx); err != nil {
			return err
		}
		return s.did(step, want)
	default:
		s.beside(step, want, s.work(step))
	}

	return nil
}

// work is what a step is that takes time.
func (s *session) work(step inplace.Step) func(ctx context.Context) error {
	name := s.node.Name
	config := s.Config
	return map[inplace.Step]func(context.Context) error{
		inplace.Kubelet: s.kubeletWell,
		inplace.Agent: func(ctx context.Context) error {
			_, err := s.join(ctx, config, s.who, "")
			return err
		},
		inplace.Rejoin: func(ctx context.Context) error { return s.rejoinKubelet(ctx, config) },
		inplace.Clear:  func(ctx context.Context) error { return s.api.deletePods(ctx, name) },
	}[step]
}

// beside does a step of an update and takes in how it went.
func (s *session) beside(
	step inplace.Step, want inplace.Facts, do func(ctx context.Context) error,
) {
	s.update.busy = true
	s.update.doing = step
	s.Log.Info("updating in place", zap.String("step", string(step)))

	s.group.Go(func() {
		err := do(s.whole)
		s.post(s.whole, func() {
			s.update.busy = false
			if err == nil {
				err = s.did(step, want)
			}
			if err != nil && s.whole.Err() == nil {
				s.update.again = s.Now().Add(updatePause)
				if err := s.failUpdate(s.whole, err.Error()); err != nil {
					s.answered("write", err)
				}
			}
		})
	})
}

// did keeps that a step to what was wanted then succeeded.
func (s *session) did(step inplace.Step, want inplace.Facts) error {
	if !s.update.known {
		return nil // Nobody speaks of updates any more.
	}
	s.over = s.over || step == inplace.Agent
	return s.keepRecord(s.update.record.After(step, want))
}

// tellUpdated has the Node say that the update is done.
func (s *session) tellUpdated(ctx context.Context) error {
	s.Event(false, "InPlaceUpdate", "the update in place is done")
	return s.change(ctx, wanted{
		labels:      map[string]*string{resultLabel: new(successResult)},
		annotations: map[string]*string{reasonAnnotation: nil, triedAnnotation: nil},
	})
}

// begin notes that the update to what is offered begins, or that another ends,
// before anything is changed for it.
func (s *session) begin(step inplace.Step) error {
	r := s.update.record
	switch {
	case step == inplace.Configure && r.Version != s.offer.sum:
		if inplace.Diff(r.Done, *s.update.want, s.status.ImageVersion).CPUManagerPolicy {
			err := s.keep().dir.Remove(cpuManagerState)
			if err != nil { // The kubelet does not start with that of another policy.
				return err
			}
		}
		r.Version = s.offer.sum
		r.Cleared = false
	case r.Version != "" && r.Version != torn && r.Version != s.offer.sum:
		r.Version = ""
		r.Cleared = false
	default:
		return nil
	}

	return s.keepRecord(r)
}

// keepRecord keeps r. What cannot be written counts all the same: it is written
// before the next step.
func (s *session) keepRecord(r inplace.Record) error {
	u := &s.update
	u.unsaved = s.keep().saveRecord(r)
	u.record = r
	u.known = true
	return u.unsaved
}

// firstRecord is kept when the node runs the first configuration that speaks of
// updates in place, and removed with the last.
func (s *session) firstRecord() error {
	u := &s.update
	switch {
	case u.want != nil && u.unclear == nil && !u.known:
		return s.keepRecord(inplace.Record{Done: *u.want})
	case u.want == nil && u.known:
		u.record = inplace.Record{}
		u.known = false
		return s.keep().dir.Remove(recordName)
	}
	return nil
}

// updateOS has another system started. The Node says which was tried, and the
// record in which boot: if the node comes back without, it is not tried again.
func (s *session) updateOS(ctx context.Context, version string) error {
	if s.Upgrade == nil {
		return s.failUpdate(ctx, "this node cannot update its operating system")
	}

	r := s.update.record
	r.Boot = s.BootID
	if err := s.keepRecord(r); err != nil {
		return err
	}

	err := s.change(ctx, wanted{annotations: map[string]*string{triedAnnotation: &version}})
	if err != nil {
		return err
	}

	c := s.Cluster // It goes on in the next session.
	c.update.rebooting = true
	c.others.Go(func() {
		if err := c.Upgrade(c.life, version); err != nil {
			c.post(c.life, func() { c.update.rebooting, c.update.refusal = false, err.Error() })
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
		s.seen = true
	}

	return err
}

// kubeletWell waits until the kubelet says that it is.
func (s *session) kubeletWell(ctx context.Context) error { return kubeletIs(ctx, s.Kubelet) }

// kubeletIs waits until the kubelet is as it should be.
func kubeletIs(ctx context.Context, right func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, kubeletLimit)
	defer cancel()

	for {
		try, end := context.WithTimeout(ctx, kubeletTry)
		err := right(try)
		end()
		if err == nil {
			return nil
		}

		pause(ctx, kubeletPause)
		if ctx.Err() != nil {
			return fmt.Errorf("kubelet is not well after the update: %w", err)
		}
	}
}

// rejoinKubelet has the kubelet ask for a certificate of the new authority,
// with the one it has. One that rotates its certificate says that it is well
// before it has any.
func (s *session) rejoinKubelet(ctx context.Context, config Config) error {
	k := s.keep()
	if err := k.rejoin(config); err != nil {
		return err
	}
	if err := s.Restart(ctx, []string{kubeletUnit}); err != nil {
		return err
	}
	return kubeletIs(ctx, func(ctx context.Context) error {
		if err := s.Kubelet(ctx); err != nil {
			return err
		}
		_, err := k.kubeletCertificate()
		return err
	})
}
