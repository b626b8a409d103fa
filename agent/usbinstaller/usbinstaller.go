// Package usbinstaller finds the USB installer that a machine was started from:
// its system is a packed disk image on the partition of the installer.
//
//	digest in loam.disk= --> UUID of the partition --> FAT --> packed disk image
//	                                                   |             |
//	                                              machine.yaml   root, tree
package usbinstaller

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/loam-os/loam/agent/boot"
	"github.com/loam-os/loam/agent/install"
	"github.com/loam-os/loam/firmware/loadoption"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/fat"
	"github.com/loam-os/loam/partitions/gpt"
)

// ErrNotThere says that no disk seen so far is the USB installer: more may
// appear.
var ErrNotThere = errors.New("no disk is the USB installer")

// Installer is a USB installer that was found. It implements live.Source.
type Installer struct {
	// Progress is called when a step has come further.
	Progress func()

	device string
	files  *fat.FS
	closer io.Closer
	sum    string
}

// Find looks for the partition with the packed image of that SHA-256, in hex.
// The UUID of the partition is the first half of the sum. unsure means that
// nothing proves that the machine was started from it: another may appear.
func Find(facts boot.Facts, sum string) (found *Installer, unsure bool, err error) {
	id, err := partitions.InstallerUUID(sum)
	if err != nil {
		return nil, false, err
	}

	var all []candidate
	for _, d := range facts.Disks {
		if d.Table == nil {
			continue
		}
		at := slices.IndexFunc(d.Table.Partitions, func(p gpt.Partition) bool {
			return p.UUID == id
		})
		if at >= 0 {
			all = append(all, look(d, d.Table.Partitions[at], sum))
		}
	}

	chosen, unsure, err := choose(all, facts.BootOption)
	for _, c := range all {
		if c.installer != nil && c.installer != chosen.installer {
			err = errors.Join(err, c.installer.Close())
		}
	}
	if err != nil {
		return nil, false, err
	}
	return chosen.installer, unsure, nil
}

// candidate is a disk with the partition of the installer.
type candidate struct {
	disk      boot.Disk
	installer *Installer
	machine   []byte
	err       error // why it cannot be read
}

// look opens the installer on a disk, and reads its machine.yaml.
func look(d boot.Disk, p gpt.Partition, sum string) candidate {
	c := candidate{disk: d}
	device, err := os.Open(d.Device)
	if err != nil {
		c.err = err
		return c
	}

	section := fat.ReadOnly(io.NewSectionReader(device, p.Start, p.Size))
	files, err := fat.Open(section, p.Size, d.SectorSize)
	if err != nil {
		c.err = errors.Join(fmt.Errorf("USB installer %s: %w", d.Device, err), device.Close())
		return c
	}

	c.installer = &Installer{
		Progress: func() {},
		device:   d.Device,
		files:    files,
		closer:   device,
		sum:      sum,
	}
	c.machine, c.err = c.installer.Machine(context.Background())
	return c
}

// choose returns the installer that the machine was started from. All that were
// written from one image have the same UUID, but each may have a machine.yaml of its
// own, which claims a disk of its node to be overwritten. The way to the disk in the
// firmware's boot option tells them apart. Where it does not, one that cannot be
// read is left aside, and those that differ are refused.
func choose(
	all []candidate,
	option loadoption.Location,
) (chosen candidate, unsure bool, err error) {
	var started, read []candidate
	var unread []error
	for _, c := range all {
		if option.LeadsTo(c.disk.Hardware) {
			started = append(started, c)
		}
	}
	unsure = len(started) == 0
	if unsure {
		started = all
	}

	for _, c := range started {
		if c.err == nil {
			read = append(read, c)
		} else {
			unread = append(unread, c.err)
		}
	}

	switch {
	case len(all) == 0:
		return candidate{}, false, ErrNotThere
	case len(read) == 0:
		return candidate{}, false, errors.Join(unread...)
	}

	for _, c := range read[1:] {
		if !bytes.Equal(c.machine, read[0].machine) {
			return candidate{}, false, hint.With(
				fmt.Errorf(
					"%s and %s are USB installers with different machine.yaml, and the firmware "+
						"does not say which of them was started",
					read[0].disk.Device, c.disk.Device,
				),
				"take out all but one",
			)
		}
	}
	return read[0], unsure, nil
}

// Disk returns the device node of the installer.
func (i *Installer) Disk() string { return i.device }

// String names the installer.
func (i *Installer) String() string { return "USB installer " + i.device }

// Close implements [io.Closer].
func (i *Installer) Close() error { return i.closer.Close() }

// Machine returns the machine.yaml on the installer, nil if the installer has no
// such file.
func (i *Installer) Machine(context.Context) ([]byte, error) {
	r, err := i.files.Open(partitions.MachineFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// Packed returns the packed disk image.
func (i *Installer) Packed(context.Context) (io.ReadCloser, error) {
	r, err := i.files.Open(partitions.InstallerFile)
	return io.NopCloser(&progressReader{r, i}), err
}

// progressReader reports progress with each read, because the device may be
// slow.
type progressReader struct {
	*io.SectionReader
	installer *Installer
}

func (r *progressReader) Read(p []byte) (int, error) {
	r.installer.Progress()
	return r.SectionReader.Read(p)
}

// System unpacks the disk image into dir, and returns where its root file
// system and hash tree are.
func (i *Installer) System(ctx context.Context, dir string) (root, tree boot.File, err error) {
	packed, err := i.Packed(ctx)
	if err != nil {
		return root, tree, err
	}

	name := filepath.Join(dir, "disk")
	size, err := install.Unpack(name, packed, i.sum)
	if err != nil {
		return root, tree, err
	}

	f, err := os.Open(name)
	if err != nil {
		return root, tree, err
	}
	defer f.Close()

	table, err := gpt.Find(f, size)
	if err != nil {
		return root, tree, fmt.Errorf("disk image on the USB installer: %w", err)
	}
	slots, err := partitions.Slots(table, runtime.GOARCH)
	if err != nil {
		return root, tree, fmt.Errorf("disk image on the USB installer: %w", err)
	}

	part := func(index int) boot.File {
		p := table.Partition(index)
		return boot.File{Name: name, Start: p.Start, Size: p.Size}
	}
	return part(slots[0].Root), part(slots[0].Verity), nil
}

// Installed does nothing: no server waits for the report.
func (i *Installer) Installed(context.Context) error { return nil }

const (
	// deviceTimeout is how long the installer may take to appear.
	deviceTimeout = 60 * time.Second
	// unsureDelay is how long to wait for another if nothing proves that the
	// machine was started from the one that is there.
	unsureDelay = 5 * time.Second
)

// Await looks for the installer each time a device appears.
func Await(i *boot.Init, sum string) (*Installer, error) {
	for started := time.Now(); ; {
		facts, err := boot.Observe()
		if err != nil {
			return nil, err
		}

		found, unsure, err := Find(facts, sum)
		if unsure && i.Await(started.Add(unsureDelay)) {
			if err := found.Close(); err != nil {
				return nil, err
			}
			continue
		}
		if !errors.Is(err, ErrNotThere) {
			return found, err
		}

		if !i.Await(started.Add(deviceTimeout)) {
			return nil, hint.With(err,
				"waited %s for it; was it written as a whole, or its partition copied?",
				deviceTimeout)
		}
	}
}
