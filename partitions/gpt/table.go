package gpt

import (
	"errors"
	"fmt"

	"github.com/google/uuid"
)

// Attribute bits of a partition: bit 0 is UEFI's, the others the Discoverable
// Partitions Specification's.
const (
	Required uint64 = 1 << 0  // the platform needs the partition
	GrowFS   uint64 = 1 << 59 // the file system is grown to the partition when mounted
	ReadOnly uint64 = 1 << 60
	NoAuto   uint64 = 1 << 63 // not to be found or mounted by type
)

// MaxPartitions is the number of entries in the partition array.
const MaxPartitions = 128

// Alignment of partition starts and ends that Loam keeps, in bytes.
const Alignment = 1 << 20

// Table is a partition table as a value.
type Table struct {
	DiskGUID   uuid.UUID
	SectorSize int   // bytes, 512 or 4096
	DiskSize   int64 // bytes that the table spans: the backup header is their last sector
	Partitions []Partition
	Source     Source // where Read found the table; Write does not use it
}

// Partition is one used entry.
type Partition struct {
	Index      int // 1 to 128: Linux's partition number
	Type       uuid.UUID
	UUID       uuid.UUID
	Label      string // at most 36 UTF-16 units
	Start      int64  // bytes from the start of the disk, a multiple of the sector size
	Size       int64  // bytes, a multiple of the sector size
	Attributes uint64
}

// End is the first byte after the partition.
func (p Partition) End() int64 { return p.Start + p.Size }

// Copy is one of the two copies of the table on a disk.
type Copy string

// The copies: the primary starts in sector 1, the backup ends in the last
// sector of the table's disk size.
const (
	Primary Copy = "primary"
	Backup  Copy = "backup"
)

// Source says which copy a table was read from, and what was wrong with either.
// A node repairs a copy by Write before it changes anything.
type Source struct {
	Used    Copy
	Primary error // nil: valid
	Backup  error // nil: valid and equal to the primary; ErrCopiesDiffer: valid but different
	// MBR is what is wrong with the protective MBR, without which firmware and
	// Linux look for no table; nil: valid. It belongs to neither copy, and Write
	// does not write it.
	MBR error `json:"-"`
}

// Fault returns all that is wrong, and with which copy, nil if nothing is.
func (s Source) Fault() error {
	return errors.Join(s.MBR, of("primary", s.Primary), of("backup", s.Backup))
}

// of names the copy of the table with a fault.
func of(copy string, fault error) error {
	if fault == nil {
		return nil
	}
	return fmt.Errorf("%s %w", copy, fault)
}

// Healthy reports whether both copies are valid and equal.
func (s Source) Healthy() bool { return s.Primary == nil && s.Backup == nil }

// Partition returns the partition with this number, or the zero Partition if
// absent.
func (t Table) Partition(index int) Partition {
	for _, p := range t.Partitions {
		if p.Index == index {
			return p
		}
	}
	return Partition{}
}

// firstUsable is the first byte that a partition may use: protective MBR,
// header and array lie before it.
func (t Table) firstUsable() int64 { return 2*int64(t.SectorSize) + arraySize }

// endUsable is the end of the range that partitions may use, exclusive.
func (t Table) endUsable() int64 { return t.DiskSize - int64(t.SectorSize) - arraySize }
