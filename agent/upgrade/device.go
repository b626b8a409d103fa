package upgrade

import (
	"io"

	"github.com/loam-os/loam/partitions/gpt"
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
