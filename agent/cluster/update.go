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

const (
	// kubeletDeadline is how long the kubelet has to become healthy,
	// kubeletTimeout how long it has to answer a request, kubeletPoll how often
	// it is asked. A failed step is retried after stepRetry, a failed upgrade
	// after upgradeRetry.
	kubeletDeadline = 5 * time.Minute
	kubeletTimeout  = 10 * time.Second
	kubeletPoll     = 5 * time.Second
	stepRetry       = time.Minute
	upgradeRetry    = 10 * time.Minute
)

// update is the state of an update in place.
type update struct {
	record inplace.Record

	// known says that there is a record. The contract needs two configurations
	// with inPlaceUpdates to compare. unsaved is the error of the last write of
	// the record.
	known   bool
	unsaved error

	// want is what the pending configuration asks for, nil for nothing. unclear
	// is why that cannot be determined.
	want    *inplace.Facts
	unclear error

	// busy says that the step doing is under way, retryAt when to retry a
	// failed step, rebooting that the node is about to boot another release.
	busy      bool
	doing     inplace.Step
	retryAt   time.Time
	rebooting bool

	// refusal is why the node did not reboot, to be reported.
	refusal string
}

// unknownVersion is the version of a record that cannot be read. Every
// difference then needs a drained node.
const unknownVersion = "torn"

// load reads the record of an earlier run.
func (u *update) load(k credentialStore, log *zap.Logger) {
	var err error
	u.record, u.known, err = k.record()
	if err != nil {
		log.Error("updates in place", zap.Error(err))
		u.record = inplace.Record{Version: unknownVersion}
		u.known = true
	}
}

// factsOf returns what a configuration asks for, nil for nothing.
func (c *Cluster) factsOf(text []byte) (*inplace.Facts, error) {
	if !bytes.Contains(text, []byte("inPlaceUpdates")) {
		return nil, nil // Decoding takes time.
	}

	asked, _ := osc.Decode(dataKey, text) // The loop reports its errors.
	u := asked.Update()
	if u == nil {
		return nil, nil
	}

	facts, err := inplace.FactsOf(*u, asked.Inline(inplace.KubeletConfig, c.hostname()))
	return &facts, err
}

// nextStep returns the next step of the pending update.
func (s *session) nextStep() inplace.Step {
	u := &s.update
	switch {
	case u.want == nil || s.pending == nil || !u.known:
		return inplace.Nothing
	case !s.nodeKnown || s.status.Phase == "" || u.unclear != nil:
		return inplace.Await // Until the state of the Node is known.
	case s.node == nil:
		return inplace.Nothing
	}

	return inplace.Next(inplace.Node{
		Record:  u.record,
		Want:    *u.want,
		Offered: s.pending.sum,
		Image:   s.status.ImageVersion,
		Tried:   s.node.Annotations[triedAnnotation],
		BootID:  s.BootID,
		Drained: drained(s.node),
		Applied: s.status.Version == s.pending.sum && s.status.Change == nil,
	})
}

// drained reports whether a Node may be updated: its pods are gone, or the
// previous update failed. After a successful update the Node gets pods again,
// and the drainer removes the label before it drains the Node again.
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

// waitsForDrain says why the update of a Node that is not drained waits.
func waitsForDrain(n *core.Node) string {
	if n != nil && n.Labels[resultLabel] == successResult {
		return " waits for the Node to be drained again, without its label " + resultLabel
	}
	return " waits for the Node to be drained"
}

// updateInPlace starts the next step of an update.
func (s *session) updateInPlace(ctx context.Context) error {
	step := s.nextStep()
	u := &s.update
	switch {
	case u.busy:
		s.setBlocked("update in place: " + string(u.doing))
		return nil
	case step == inplace.Nothing || s.node == nil || u.rebooting || s.renewing || s.finished ||
		s.status.Phase == "":
		return nil
	case s.Now().Before(u.retryAt):
		s.setBlocked("update in place: " + s.node.Annotations[reasonAnnotation])
		s.wakeAt(u.retryAt)
		return nil
	case u.unsaved != nil:
		return s.saveRecord(u.record)
	case u.refusal != "":
		refusal := u.refusal
		u.refusal, u.retryAt = "", s.Now().Add(upgradeRetry)
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
		s.setBlocked("update of " + why)
	case inplace.Configure:
		if s.status.Offered == s.pending.sum && s.status.Refused && s.status.Error != nil {
			return s.failUpdate(ctx, s.status.Error.Problem)
		}
	case inplace.OS:
		return s.updateOS(ctx, want.OS)
	case inplace.GaveUp:
		return s.failUpdate(ctx,
			fmt.Sprintf("the node came back with version %s, not %s",
				s.status.ImageVersion, want.OS))
	case inplace.Tokens: // The token sync writes new ones as they appear.
		return s.stepDone(step, want)
	case inplace.Report:
		if err := s.reportUpdated(ctx); err != nil {
			return err
		}
		return s.stepDone(step, want)
	default:
		s.runStep(step, want, s.stepFunc(step))
	}

	return nil
}

// stepFunc returns the function of a step that takes time.
func (s *session) stepFunc(step inplace.Step) func(ctx context.Context) error {
	name := s.node.Name
	config := s.Config
	return map[inplace.Step]func(context.Context) error{
		inplace.Kubelet: s.waitForKubelet,
		inplace.Agent: func(ctx context.Context) error {
			_, err := s.join(ctx, config, s.who, "")
			return err
		},
		inplace.Rejoin: func(ctx context.Context) error { return s.rejoinKubelet(ctx, config) },
		inplace.Clear:  func(ctx context.Context) error { return s.api.deletePods(ctx, name) },
	}[step]
}

// runStep runs a step in the background and handles its result.
func (s *session) runStep(
	step inplace.Step, want inplace.Facts, do func(ctx context.Context) error,
) {
	s.update.busy = true
	s.update.doing = step
	s.Log.Info("updating in place", zap.String("step", string(step)))

	s.group.Go(func() {
		err := do(s.ctx)
		s.post(s.ctx, func() {
			s.update.busy = false
			if err == nil {
				err = s.stepDone(step, want)
			}
			if err != nil && s.ctx.Err() == nil {
				s.update.retryAt = s.Now().Add(stepRetry)
				if err := s.failUpdate(s.ctx, err.Error()); err != nil {
					s.handleResult("write", err)
				}
			}
		})
	})
}

// stepDone records that a step towards want succeeded.
func (s *session) stepDone(step inplace.Step, want inplace.Facts) error {
	if !s.update.known {
		return nil // The configuration no longer asks for updates.
	}
	s.finished = s.finished || step == inplace.Agent
	return s.saveRecord(s.update.record.After(step, want))
}

// reportUpdated reports on the Node that the update is done.
func (s *session) reportUpdated(ctx context.Context) error {
	s.Event(false, "InPlaceUpdate", "the update in place is done")
	return s.change(ctx, desiredMeta{
		labels:      map[string]*string{resultLabel: new(successResult)},
		annotations: map[string]*string{reasonAnnotation: nil, triedAnnotation: nil},
	})
}

// begin records that an update begins, or that an earlier one ends, before
// anything changes for it.
func (s *session) begin(step inplace.Step) error {
	r := s.update.record
	switch {
	case step == inplace.Configure && r.Version != s.pending.sum:
		if inplace.Diff(r.Done, *s.update.want, s.status.ImageVersion).CPUManagerPolicy {
			err := s.store().dir.Remove(cpuManagerState)
			if err != nil { // The kubelet does not start with the state of another policy.
				return err
			}
		}
		r.Version = s.pending.sum
		r.Cleared = false
	case r.Version != "" && r.Version != unknownVersion && r.Version != s.pending.sum:
		r.Version = ""
		r.Cleared = false
	default:
		return nil
	}

	return s.saveRecord(r)
}

// saveRecord sets and writes the record. If the write fails, the record still
// applies and is written before the next step.
func (s *session) saveRecord(r inplace.Record) error {
	u := &s.update
	u.unsaved = s.store().saveRecord(r)
	u.record = r
	u.known = true
	return u.unsaved
}

// firstRecord creates the record when the node runs the first configuration
// with inPlaceUpdates, and removes it when the last one is gone.
func (s *session) firstRecord() error {
	u := &s.update
	switch {
	case u.want != nil && u.unclear == nil && !u.known:
		return s.saveRecord(inplace.Record{Done: *u.want})
	case u.want == nil && u.known:
		u.record = inplace.Record{}
		u.known = false
		return s.store().dir.Remove(recordName)
	}
	return nil
}

// updateOS boots another release. The Node records its version and the record
// the boot ID: if the node comes back without that release, it is not tried
// again.
func (s *session) updateOS(ctx context.Context, version string) error {
	if s.Upgrade == nil {
		return s.failUpdate(ctx, "this node cannot update its operating system")
	}

	r := s.update.record
	r.Boot = s.BootID
	if err := s.saveRecord(r); err != nil {
		return err
	}

	err := s.change(ctx, desiredMeta{annotations: map[string]*string{triedAnnotation: &version}})
	if err != nil {
		return err
	}

	c := s.Cluster // The goroutine may outlive the session.
	c.update.rebooting = true
	c.background.Go(func() {
		if err := c.Upgrade(c.life, version); err != nil {
			c.post(c.life, func() {
				c.update.rebooting = false
				c.update.refusal = err.Error()
			})
		}
	})

	return nil
}

// failUpdate reports on the Node why an update cannot go on.
func (s *session) failUpdate(ctx context.Context, reason string) error {
	s.setBlocked("update in place: " + reason)
	return s.change(ctx, desiredMeta{
		labels:      map[string]*string{resultLabel: new(failedResult)},
		annotations: map[string]*string{reasonAnnotation: &reason},
	})
}

// change patches the Node as desired.
func (s *session) change(ctx context.Context, w desiredMeta) error {
	if s.node == nil {
		return errors.New("the Node is gone")
	}

	patch := w.patch(s.node)
	if patch == nil {
		return nil
	}

	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()

	n, err := s.api.patchNode(ctx, s.node.Name, "", mergePatch, patch)
	if err == nil {
		s.node = n
		s.seen = true
	}

	return err
}

// waitForKubelet waits until the kubelet is healthy.
func (s *session) waitForKubelet(ctx context.Context) error { return pollKubelet(ctx, s.Kubelet) }

// pollKubelet calls right until it succeeds or kubeletDeadline has passed.
func pollKubelet(ctx context.Context, right func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, kubeletDeadline)
	defer cancel()

	for {
		try, end := context.WithTimeout(ctx, kubeletTimeout)
		err := right(try)
		end()
		if err == nil {
			return nil
		}

		pause(ctx, kubeletPoll)
		if ctx.Err() != nil {
			return fmt.Errorf("kubelet is not healthy after the update: %w", err)
		}
	}
}

// rejoinKubelet makes the kubelet request a certificate of the new authority
// with its present one. While it rotates its certificate, the kubelet is
// healthy before it has the new one.
func (s *session) rejoinKubelet(ctx context.Context, config Config) error {
	k := s.store()
	if err := k.prepareRejoin(config); err != nil {
		return err
	}
	if err := s.Restart(ctx, []string{kubeletUnit}); err != nil {
		return err
	}
	return pollKubelet(ctx, func(ctx context.Context) error {
		if err := s.Kubelet(ctx); err != nil {
			return err
		}
		_, err := k.kubeletCertificate()
		return err
	})
}
