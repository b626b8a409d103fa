package upgrade

import (
	"encoding/hex"
	"fmt"
	"io"

	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/gpt"
	"github.com/loam-os/loam/partitions/verity"
)

// Device is a partition, or a whole disk, without a cache in between. Sync returns
// when all that was written is durable.
type Device interface {
	io.ReaderAt
	io.WriterAt
	Sync() error
}

// Closer is a Device that somebody holds.
type Closer interface {
	Device
	io.Closer
}

// Disk is the disk that the system runs from.
type Disk struct {
	// Arch is the machine's, as Go names it. Size and SectorSize are in bytes.
	Arch       string
	Size       int64
	SectorSize int
	// Whole is all of it, for the partition table.
	Whole Device
	// Open opens a partition that nobody else has open for writing, or mounted.
	Open func(p gpt.Partition) (Closer, error)
	// Running opens the partition of that number of the running system, to read.
	Running func(p gpt.Partition) (io.ReaderAt, io.Closer, error)
}

// slots are the slot of the running system and the other.
func (d Disk) slots(table gpt.Table, running System) (own, other partitions.Slot, err error) {
	slots, err := partitions.Slots(table, d.Arch)
	if err != nil {
		return own, other, err
	}
	for i, s := range slots {
		if hash, whole := s.Holds(table, d.Arch); whole && hex.EncodeToString(hash[:]) == running.RootHash {
			return s, slots[1-i], nil
		}
	}
	return own, other, fmt.Errorf("no slot of the disk holds the running system %.12s", running.RootHash)
}

// locals is the content of the slot that runs, for as long as done is not called.
// What was found before an error is there, too.
func (d Disk) locals(table gpt.Table, running partitions.Slot) (all []Local, done func(), err error) {
	var open []io.Closer
	done = func() {
		for _, c := range open {
			_ = c.Close()
		}
	}
	var parts [2]io.ReaderAt
	for i, index := range []int{running.Root, running.Verity} {
		r, c, err := d.Running(table.Partition(index))
		if err != nil {
			return nil, done, err
		}
		parts[i], open = r, append(open, c)
	}
	sb, err := verity.ReadSuperblock(parts[1])
	if err != nil {
		return nil, done, fmt.Errorf("the slot that runs: %w", err)
	}
	for i, size := range []int64{sb.DataBlocks * verity.BlockSize, verity.HashSize(sb.DataBlocks)} {
		l, err := Locate(parts[i], size)
		all = append(all, l)
		if err != nil {
			return all, done, err
		}
	}
	return all, done, nil
}
