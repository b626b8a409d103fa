package gpt

import (
	"slices"

	"github.com/google/uuid"
)

// stateType is the type of the state partition: "var" of the Discoverable
// Partitions Specification, on every architecture.
var stateType = uuid.MustParse("4d21b016-b534-45c2-a9fb-5c16e091fd2d")

// Grow moves the backup table to the end of a disk of diskSize bytes and, if
// the last partition is the state partition (type "var"), lets it end at the
// last 1 MiB border before the backup. Nothing ever shrinks. It reports whether
// anything changed; it writes nothing.
func (t Table) Grow(diskSize int64) (Table, bool) {
	grown := t
	grown.Partitions = slices.Clone(t.Partitions)
	grown.DiskSize = max(t.DiskSize, diskSize-diskSize%int64(t.SectorSize))
	changed := grown.DiskSize != t.DiskSize
	if p := grown.last(); p != nil && p.Type == stateType {
		end := grown.endUsable() - grown.endUsable()%Alignment
		if end > p.End() {
			p.Size = end - p.Start
			changed = true
		}
	}

	return grown, changed
}

// last is the partition nearest to the end of the disk, nil in an empty table.
func (t Table) last() *Partition {
	var last *Partition
	for i := range t.Partitions {
		if p := &t.Partitions[i]; last == nil || p.Start > last.Start {
			last = p
		}
	}
	return last
}
