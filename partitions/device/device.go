// Package device says what the packages under partitions and the agent need of
// a block device.
//
// It is here, and not in agent/block, because the formats under partitions must
// not import the agent (ARCHITECTURE.md, "Import rules"), and both write to the
// same disks.
package device

import "io"

// Device is a disk or a partition; offsets are from its start. A package that
// writes only whole blocks says which. *os.File implements it.
type Device interface {
	io.ReaderAt
	io.WriterAt

	// Sync returns when all that was written is durable.
	Sync() error
}
