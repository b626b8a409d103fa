package loop

import (
	"context"
	"slices"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/hint/fault"
)

// disksRead takes in how worn the disks are, logs and tells the cluster what is
// new, and publishes it.
func (r *runner) disksRead(ctx context.Context, now []status.Disk) {
	before := r.node.state.Facts.Disks
	r.node.state.Facts.Disks = now

	for _, d := range troubled(now) {
		if isIn(before, d) {
			continue
		}
		r.node.log.Warn("disk", zap.String("problem", d.Problem))
		if d.Code == fault.DiskFailing {
			r.storages.report.event("DiskFailing", d.Problem)
		} else {
			r.storages.report.event("DiskWorn", d.Problem)
		}
	}
	r.node.show(ctx)
}

// isIn reports whether disks say the same of a disk.
func isIn(disks []status.Disk, d status.Disk) bool {
	return slices.ContainsFunc(disks, func(b status.Disk) bool { return isSameDisk(b, d) })
}
