package volume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/block"
	"github.com/loam-os/loam/partitions/sparse"
)

// Writable is a disk that is open to be formatted.
type Writable interface {
	block.Handle
	// Zero makes n bytes zeros (BLKZEROOUT).
	Zero(offset, n int64) error
}

// Maker makes volumes.
type Maker struct {
	// For is what the volumes are for.
	For *Purpose
	// Open opens a device exclusively.
	Open func(node string) (Writable, error)
	// Run runs a command: see Mkfs.
	Run func(ctx context.Context, command []string) error
	// Scratch is a directory in memory for a sparse file.
	Scratch string
}

// Make formats the disk that Decide chose. The disk may have come into use
// since the decision. So Make inspects it once more after it was opened
// exclusively. With a container, the volume is encrypted.
func (m Maker) Make(
	ctx context.Context, c Choice, fileSystem string, sectorSize int, in *Container,
) (err error) {
	if c.Action != ToFormat && c.Action != ToFinish {
		return fmt.Errorf("format %s: it was not chosen to be formatted", c.Device)
	}

	disk, err := m.Open(c.Device)
	if err != nil {
		return fmt.Errorf("format %s: %w", c.Device, err)
	}
	defer func() { err = errors.Join(err, disk.Close()) }()

	if size, err := disk.Seek(0, io.SeekEnd); err != nil || size != c.Size {
		return errors.Join(fmt.Errorf("format %s: it has %d bytes, the chosen disk %d",
			c.Device, size, c.Size), err)
	}

	if now := ReadContent(disk, c.Size); len(now.Evidence) > 0 &&
		(!now.Unfinished || now.Volume != m.For.Label) {
		return fmt.Errorf("format %s: no longer empty: %v", c.Device, now)
	}

	if in != nil {
		err = m.makeEncrypted(ctx, disk, c.Size, fileSystem, *in)
	} else {
		err = m.makeOn(ctx, disk, c.Size, fileSystem, sectorSize)
	}
	if err != nil {
		return fmt.Errorf("format %s: %w", c.Device, err)
	}
	return nil
}

// makeOn makes the file system on a device of size bytes.
func (m Maker) makeOn(
	ctx context.Context, device Writable, size int64, fileSystem string, sectorSize int,
) error {
	image, err := m.image(ctx, fileSystem, size, sectorSize)
	if err != nil {
		return err
	}
	defer image.Close()

	data, err := sparse.Data(image, size)
	if err != nil {
		return err
	}
	return Format(device, m.For.Mark, image, data, sectorSize)
}

// image returns an unlinked file with the new file system.
func (m Maker) image(
	ctx context.Context, fileSystem string, size int64, sectorSize int,
) (*os.File, error) {
	name := filepath.Join(m.Scratch, "new-volume")
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}

	defer os.Remove(name)
	err = errors.Join(file.Truncate(size), m.Run(ctx, Mkfs(fileSystem, m.For.Label, name, size, sectorSize)))
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}

	return file, nil
}

// blockDevice is a disk of this machine.
type blockDevice struct{ *os.File }

// OpenDisk opens a device to be formatted. Linux gives a block device to one
// exclusive user at a time, and to none while it is mounted (O_EXCL without
// O_CREAT, open(2)).
func OpenDisk(node string) (Writable, error) {
	f, err := os.OpenFile(node, os.O_RDWR|unix.O_EXCL, 0)
	return blockDevice{f}, busy(err)
}

// OpenToLook implements Machine.Open for this machine.
func OpenToLook(node string, exclusive bool) (Device, error) {
	flags := os.O_RDONLY
	if exclusive {
		flags |= unix.O_EXCL
	}
	f, err := os.OpenFile(node, flags, 0)
	return f, busy(err)
}

func busy(err error) error {
	if errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("%w: %w", ErrBusy, err)
	}
	return err
}

// Zero implements [Writable] with block.Zero.
func (d blockDevice) Zero(offset, n int64) error { return block.Zero(d.File, offset, n) }
