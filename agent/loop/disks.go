package loop

import (
	"context"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/hint/fault"
)

// disksRead takes in how worn the disks are, logs what is new, reports it with one
// Event for all disks that fail and one for all that are worn, and publishes it.
func (r *runner) disksRead(ctx context.Context, now []status.Disk) {
	before := r.node.state.Facts.Disks
	r.node.state.Facts.Disks = now

	var failing, worn []string
	for _, d := range troubled(now) {
		if isIn(before, d) {
			continue
		}
		r.node.log.Warn("disk", zap.String("problem", d.Problem))
		if d.Code == fault.DiskFailing {
			failing = append(failing, d.Problem)
		} else {
			worn = append(worn, d.Problem)
		}
	}
	if failing != nil {
		r.storages.report.event("DiskFailing", strings.Join(failing, ", "))
	}
	if worn != nil {
		r.storages.report.event("DiskWorn", strings.Join(worn, ", "))
	}
	r.node.show(ctx)
}

// isIn reports whether disks say the same of a disk.
func isIn(disks []status.Disk, d status.Disk) bool {
	return slices.ContainsFunc(disks, func(b status.Disk) bool { return isSameDisk(b, d) })
}
