package disk

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/upgrade/fill"
	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/device"
	"github.com/loam-os/loam/partitions/gpt"
	"github.com/loam-os/loam/partitions/verity"
)

// Closer is a device that has to be closed.
type Closer interface {
	device.Device
	io.Closer
}

// Disk is the disk from which the system runs. No cache is between it and who reads
// or writes it.
type Disk struct {
	// Arch is the machine's architecture, as Go names it.
	Arch string
	// Size and SectorSize are in bytes.
	Size       int64
	SectorSize int
	// Whole is the entire disk, for the partition table.
	Whole device.Device
	Partitions
}

// Partitions opens the partitions of a disk.
type Partitions interface {
	// Open opens a partition that nothing else has open for writing, or
	// mounted.
	Open(p gpt.Partition) (Closer, error)
	// OpenRunning opens a partition of the running system, to read.
	OpenRunning(p gpt.Partition) (io.ReaderAt, io.Closer, error)
}

// table reads the partition table, of which one copy is enough.
func (d Disk) table() (gpt.Table, error) { return gpt.Read(d.Whole, d.Size, d.SectorSize) }

// RepairTable repairs a damaged copy of the partition table, and the protective
// MBR: without them, a later start would find no partition. damage says what was
// wrong with a table that can be read, nil if nothing was.
func (d Disk) RepairTable() (damage, err error) {
	table, err := d.table()
	if err != nil {
		return nil, err
	}
	return table.Source.Fault(), table.Repair(d.Whole)
}

// target returns the slot that does not run, in the table as it is now. running
// is the root hash of the system that does.
func (d Disk) target(running string) (gpt.Table, partitions.Slot, error) {
	table, err := d.table()
	if err != nil {
		return table, partitions.Slot{}, err
	}
	_, other, err := d.slots(table, running)
	return table, other, err
}

// targetToMark is target for a change of the table. A damaged primary copy or MBR
// is repaired first, and the change begins with the backup copy.
func (d Disk) targetToMark(running string) (gpt.Table, partitions.Slot, error) {
	table, slot, err := d.target(running)
	if err != nil || (table.Source.Primary == nil && table.Source.MBR == nil) {
		return table, slot, err
	}
	return table, slot, table.Repair(d.Whole)
}

// with calls do with an open partition.
func (d Disk) with(p gpt.Partition, do func(device.Device) error) error {
	dev, err := d.Open(p)
	if err != nil {
		return err
	}
	return errors.Join(do(dev), dev.Close())
}

// withSlot calls do with the open partitions of a slot.
func (d Disk) withSlot(
	table gpt.Table, slot partitions.Slot, do func(root, tree device.Device) error,
) error {
	return d.with(table.Partition(slot.Root), func(root device.Device) error {
		return d.with(table.Partition(slot.Verity), func(tree device.Device) error {
			return do(root, tree)
		})
	})
}

// Share serves the chunks of the running system, which has that root hash, for
// other nodes.
func (d Disk) Share(running string, log *zap.Logger) http.Handler {
	return fill.Share(func() ([]fill.Local, error) {
		table, err := d.table()
		if err != nil {
			return nil, err
		}

		slot, _, err := d.slots(table, running)
		if err != nil {
			return nil, err
		}

		locals, _, err := d.locals(table, slot) // They stay open.
		return locals, err
	}, log)
}

// slots returns the slot of the running system, which has that root hash, and
// the other slot.
func (d Disk) slots(table gpt.Table, running string) (own, other partitions.Slot, err error) {
	slots, err := partitions.Slots(table, d.Arch)
	if err != nil {
		return own, other, err
	}
	for i, s := range slots {
		hash, complete := s.Holds(table, d.Arch)
		if complete && hex.EncodeToString(hash[:]) == running {
			return s, slots[1-i], nil
		}
	}
	return own, other, fmt.Errorf("no slot of the disk holds the running system %.12s", running)
}

// locals returns the content of the running slot, which can be read until done
// is called. After an error it has what was found before.
func (d Disk) locals(
	table gpt.Table, running partitions.Slot,
) (all []fill.Local, done func(), err error) {
	var open []io.Closer
	done = func() {
		for _, c := range open {
			_ = c.Close()
		}
	}

	var parts [2]io.ReaderAt
	for i, index := range []int{running.Root, running.Verity} {
		r, c, err := d.OpenRunning(table.Partition(index))
		if err != nil {
			return nil, done, err
		}
		parts[i] = r
		open = append(open, c)
	}

	sb, err := verity.ReadSuperblock(parts[1])
	if err != nil {
		return nil, done, fmt.Errorf("the slot that runs: %w", err)
	}

	for i, size := range []int64{sb.DataBlocks * verity.BlockSize, verity.HashSize(sb.DataBlocks)} {
		l, err := fill.Locate(parts[i], size, bundle.ChunkSize)
		all = append(all, l)
		if err != nil {
			return all, done, err
		}
	}

	return all, done, nil
}
