package install

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/loam-os/loam/agent/block"
	"github.com/loam-os/loam/agent/flash"
	"github.com/loam-os/loam/agent/volume"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/gpt"
)

// Open opens a disk to install on, if it is still the one that was chosen: the
// disks may have changed while the image was transferred.
func Open(m volume.Machine, chosen volume.Disk) (block.Handle, error) {
	disk, err := flash.Open(chosen.Device)
	if err != nil {
		return nil, err
	}
	if err := m.Still(chosen); err != nil {
		return nil, errors.Join(err, disk.Close())
	}
	return disk, nil
}

// Table reads the partition table that a disk has now.
func Table(d Candidate) (gpt.Table, error) {
	f, err := os.Open(d.Device)
	if err != nil {
		return gpt.Table{}, err
	}
	defer f.Close()
	return gpt.Read(f, d.Size, d.SectorSize)
}

// System is what a disk gets.
type System struct {
	// Image is a disk image of Size bytes.
	Image io.ReaderAt
	Size  int64
	// Identity is given to the disk and its partitions.
	Identity partitions.Identity
	// Machine is machine.yaml, which the ESP gets; nil if none.
	Machine []byte
}

// Write writes a system to the chosen disk and reads it back. The disk may have
// come into use since the decision. So Write inspects it once more after it was
// opened exclusively.
func Write(
	ctx context.Context,
	open func(volume.Disk) (block.Handle, error),
	c Choice,
	w Claim,
	system System,
	progress flash.Progress,
) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("install on %s: %w", c.Disk.Device, err)
		}
	}()

	if c.Installed {
		return errors.New("it has a system")
	}

	layers := flash.NewOverlay(system.Image)
	im, err := flash.Prepare(layers, system.Size, system.Identity, system.Machine)
	if err != nil {
		return err
	}
	if err := Fits(c.Disk.Disk, im.Table); err != nil {
		return err
	}

	disk, err := open(c.Disk.Disk)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, disk.Close()) }()

	if err := unchanged(disk, c.Disk, w); err != nil {
		return err
	}

	return flash.Write(ctx, disk, c.Disk.Size, layers, im, progress)
}

// unchanged inspects a chosen disk again: it must have the same size, and still
// be empty.
func unchanged(disk block.Handle, chosen Candidate, w Claim) error {
	if size, err := disk.Seek(0, io.SeekEnd); err != nil || size != chosen.Size {
		return errors.Join(fmt.Errorf("it has %d bytes, the chosen disk %d",
			size, chosen.Size), err)
	}

	now := chosen.Disk
	now.Content = volume.ReadContent(disk, chosen.Size)
	current := examine(disk, now)
	switch {
	case current.HasSystem(runtime.GOARCH):
		return errors.New("it has a system now")
	case len(now.Content.Evidence) > 0 && !current.unfinished(runtime.GOARCH) &&
		(w.Wipe == "" || w.Wipe != chosen.Serial):
		return fmt.Errorf("no longer empty: %v", now.Content)
	}

	return nil
}
