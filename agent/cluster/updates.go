package cluster

import (
	"os"
	"slices"
	"time"

	"go.uber.org/zap"

	core "k8s.io/api/core/v1"

	"github.com/loam-os/loam/agent/durable"
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

// A failed step is retried after stepRetry, a failed upgrade after
// upgradeRetry.
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

	// failure is a failure to be reported, nil if none. retryAt is when to
	// retry the step after it.
	failure *updateFailure
	retryAt time.Time

	// setBacks is that of the world when retryAt was set.
	setBacks int
}

// updateFailure is why a step of the update to a configuration with that digest
// failed, and how long to wait before it is tried again.
type updateFailure struct {
	digest, reason string
	pause          time.Duration
}

// loadUpdates reads the record of an earlier run.
func loadUpdates(root *os.Root, log *zap.Logger) updates {
	record, ok, err := loadRecord(root)
	if err != nil {
		log.Error("updates in place", zap.Error(err), zap.String("hint", hint.Of(err)))
		return updates{record: inplace.Record{Version: unknownVersion}, hasRecord: true}
	}
	return updates{record: record, hasRecord: ok}
}

// save sets and writes the record. If the write fails, the record still applies
// and is written before the next step.
func (u *updates) save(dir *durable.Dir, r inplace.Record) error {
	u.unsaved = saveRecord(dir, r)
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

	return inplace.Next(inplace.State{
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
