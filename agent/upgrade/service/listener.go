package service

import (
	"fmt"
	"time"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/upgrade"
	"github.com/loam-os/loam/agent/upgrade/disk"
)

// listener implements [upgrade.Listener]: it tells the machine, the
// cluster and the status.
type listener struct{ s *Service }

// Done tells the machine and the cluster about the steps that matter to them.
func (l listener) Done(op upgrade.Op, j *upgrade.Journal) {
	running := l.s.Upgrader.Boot.Running
	finished := op.Kind == upgrade.Finish && j != nil && j.Target == running
	if finished {
		l.s.Machine.Proven()
	}

	switch {
	case op.Kind == upgrade.Restore:
		l.s.Machine.Event(true, "BootEntryRestored", fmt.Sprintf(
			"the boot entry of %s was gone, and is made again from the recovery entry",
			running.Version))
	case j == nil || j.Drill != nil:
	case op.Kind == upgrade.Remember:
		l.s.Machine.Event(true, "UpgradeFailed", fmt.Sprintf(
			"version %s did not stay, %s runs again: %s",
			j.Target.Version, j.From.Version, op.Reason))
	case op.Kind == upgrade.Finish && j.Canceled && j.From == running:
		l.s.Machine.Event(false, "UpgradeCanceled", fmt.Sprintf(
			"the upgrade to version %s was canceled, %s stays", j.Target.Version, j.From.Version))
	case finished:
		l.s.Machine.Event(false, "Upgraded", fmt.Sprintf(
			"version %s has taken the place of %s", j.Target.Version, j.From.Version))
	}
}

// Progress publishes how far a fill is.
func (l listener) Progress(p disk.Progress) {
	l.s.publish(func(u *status.Upgrade) {
		u.Part = p.Part
		u.Size = p.Size
		u.Done = p.Kept + p.Written
		u.Fetched = p.Fetched
		u.Retry = time.Time{} // This is the retry.
		if p.Fetched > 0 {
			u.Problem = "" // The problem of the try before is over.
		}
	})
}
