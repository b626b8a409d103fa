package loop

import (
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/hint/fault"
)

// disksRead takes in how worn the disks are, logs what is new, reports it with one
// Event for all disks that fail and one for all that are worn, and publishes it.
func disksRead(s State, now []status.Disk) (State, []Effect) {
	before := s.Facts.Disks
	s.Facts.Disks = now

	var effects []Effect
	var failing, worn []string
	for _, d := range troubled(now) {
		if isIn(before, d) {
			continue
		}
		effects = append(effects, warning("disk", zap.String("problem", d.Problem)))
		if d.Code == fault.DiskFailing {
			failing = append(failing, d.Problem)
		} else {
			worn = append(worn, d.Problem)
		}
	}
	if failing != nil {
		effects = append(effects,
			Event{Reason: "DiskFailing", Message: strings.Join(failing, ", ")})
	}
	if worn != nil {
		effects = append(effects, Event{Reason: "DiskWorn", Message: strings.Join(worn, ", ")})
	}
	return s, append(effects, Show{})
}

// isIn reports whether disks say the same of a disk.
func isIn(disks []status.Disk, d status.Disk) bool {
	return slices.ContainsFunc(disks, func(b status.Disk) bool { return isSameDisk(b, d) })
}
