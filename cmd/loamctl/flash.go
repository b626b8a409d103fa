package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/flash"
	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/volume"
	"github.com/loam-os/loam/cmd/progress"
	"github.com/loam-os/loam/cmd/usage"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/inspect"
	"github.com/loam-os/loam/partitions"
)

// flashing is one run of the command.
type flashing struct {
	image, device, machine, wipe string
	dryRun                       bool
	out, progress                io.Writer
	in                           io.Reader
}

func flashCommand() *cobra.Command {
	var f flashing
	cmd := &cobra.Command{
		Use:               "flash IMAGE DEVICE",
		ValidArgsFunction: completeFlash,
		Short:             "Write an image to a disk",
		Long: `flash writes an image (raw, packed, qcow2, or the directory of a build) to a disk, and reads
it back. What is on the disk is lost: the command shows which disk it is and what is on it,
which machine.yaml it gets, and asks for its serial number. It does not touch a disk that is
in use. With --dry-run it makes the same checks and writes nothing. The image of a USB installer
(.usb.raw) makes a USB drive that installs the system without a network.`,
		Example: `  loamctl flash build/amd64-metal /dev/sdb --machine machine.yaml
  loamctl flash --dry-run build/amd64-metal /dev/sdb --machine machine.yaml
  loamctl flash build/amd64-metal/*.usb.raw /dev/sdc --machine machine.yaml`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.image = args[0]
			f.device = args[1]
			f.out = cmd.OutOrStdout()
			f.progress = cmd.ErrOrStderr()
			f.in = cmd.InOrStdin()
			return f.run(cmd.Context())
		},
	}

	cmd.Flags().StringVar(&f.machine, "machine", "",
		"`FILE` with the machine.yaml of the node, to put on its ESP, or on the USB installer")
	cmd.Flags().StringVar(&f.wipe, "yes-wipe", "",
		"do not ask: `SERIAL` is the serial number of the disk, or its device if it has none")
	cmd.Flags().BoolVarP(&f.dryRun, "dry-run", "n", false,
		"check everything, show what would be written and lost, and write nothing")
	return cmd
}

func (f *flashing) run(ctx context.Context) error {
	var config []byte
	if f.machine != "" {
		var err error
		config, err = document.ReadFile(f.machine)
		if err != nil {
			return err
		}
		if _, err := machine.DecodeUnverified(f.machine, config); err != nil {
			return invalid(f.machine, err)
		}
	}

	disk, err := observe(f.device)
	if err != nil {
		return err
	}

	if err := refuseSame(f.image, disk); err != nil {
		return err
	}

	bar := progress.New(f.progress)
	defer bar.Close()
	source, err := inspect.OpenSource(ctx, f.image, bar.Update)
	if err != nil {
		return err
	}
	defer source.Close()

	id, err := partitions.NewIdentity(rand.Reader)
	if err != nil {
		return err
	}

	layers := flash.NewOverlay(source)
	im, err := flash.Prepare(layers, source.Size, id, config)
	if err != nil {
		return fmt.Errorf("%s: %w", source.File, err)
	}

	text, err := inspect.Machine(layers, source.Size)
	if err != nil {
		return fmt.Errorf("%s: %w", source.File, err)
	}

	if f.machine != "" {
		im, err := inspect.Read(layers, source.Size)
		if err != nil {
			return fmt.Errorf("%s: %w", source.File, err)
		}
		if err := notTrusted(im.UKIs, f.machine, config); err != nil {
			return err
		}
	}

	f.show(disk, im, source.File, text)
	if err := obstacle(disk, im); err != nil {
		return err
	}
	if f.dryRun {
		return f.rehearse(ctx, disk, im)
	}
	if err := f.confirm(ctx, disk); err != nil {
		return err
	}

	to, err := flash.Open(disk.Device)
	if err != nil {
		return err
	}

	err = machineHere().Still(disk)
	if err == nil { // The question may have taken a while.
		err = flash.Write(ctx, to, disk.Size, layers, im, bar.Update)
		bar.Close()
	}

	err = errors.Join(err, to.Close())
	if errors.Is(err, context.Canceled) {
		return hint.With(fmt.Errorf("%s: interrupted: the image is not complete on it", disk.Device),
			"run the command again: what was on the disk is lost")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", disk.Device, err)
	}

	_, err = fmt.Fprintf(f.out, "%s: done; it can be taken out\n", disk.Device)
	return err
}

// observe looks at the disk that a path leads to.
func observe(device string) (volume.Disk, error) {
	at, err := filepath.EvalSymlinks(device)
	if err != nil {
		return volume.Disk{}, err
	}
	return volume.ObserveOne(machineHere(), at)
}

func machineHere() volume.Machine {
	return volume.Machine{Root: os.DirFS("/"), Open: volume.OpenToLook}
}

// obstacle says why an image cannot go to a disk, nil if it can.
func obstacle(d volume.Disk, im flash.Image) error {
	switch {
	case len(d.Uses) > 0:
		return hint.With(
			fault.With(
				fmt.Errorf("%s: it is in use: %s", d.Device, strings.Join(d.Uses, ", ")),
				fault.InUse,
			),
			"unmount it first, if it is the right disk: lsblk %s", d.Device,
		)
	case d.ReadOnly:
		return hint.With(fault.With(fmt.Errorf("%s: it is read-only", d.Device), fault.DiskNotFit),
			"an SD card has a switch for that")
	case d.SectorSize != im.Table.SectorSize:
		return hint.With(
			fault.With(fmt.Errorf(
				"%s: it has sectors of %d bytes, the image is for %d",
				d.Device, d.SectorSize, im.Table.SectorSize,
			), fault.DiskNotFit),
			"loamctl build --sector-size %d", d.SectorSize,
		)
	case d.Size < im.Table.DiskSize:
		return fault.With(fmt.Errorf("%s: it has %d MiB, the image needs %d MiB",
			d.Device, d.Size>>20, im.Table.DiskSize>>20), fault.DiskNotFit)
	}

	return nil
}

// refuseSame refuses an image that is the disk itself, or a partition of it.
func refuseSame(image string, d volume.Disk) error {
	nodes := []string{d.Device}
	for _, p := range d.Parts {
		nodes = append(nodes, p.Device)
	}

	for _, node := range nodes {
		if same, err := sameDevice(image, node); err != nil {
			return err
		} else if same {
			return hint.With(usage.Errorf("%s: it is the disk itself: %s", image, node),
				"IMAGE is what is written, DEVICE the disk that it is written to")
		}
	}
	return nil
}

// sameDevice reports whether a path leads to a file or to a block device, which
// may have several nodes. A container may lack nodes.
func sameDevice(path, node string) (bool, error) {
	var a, b unix.Stat_t
	if err := unix.Stat(path, &a); err != nil {
		return false, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if err := unix.Stat(node, &b); err != nil {
		return false, nil
	}

	block := func(s unix.Stat_t) bool { return s.Mode&unix.S_IFMT == unix.S_IFBLK }
	return (a.Dev == b.Dev && a.Ino == b.Ino) || (block(a) && block(b) && a.Rdev == b.Rdev), nil
}

// show says what would be lost, and what is written. text is the machine.yaml
// that the disk will have, "" if none.
func (f *flashing) show(d volume.Disk, im flash.Image, file, text string) {
	w := tabwriter.NewWriter(f.out, 0, 0, 2, ' ', 0)
	kind := map[bool]string{false: "fixed", true: "removable"}[d.Removable]
	fmt.Fprintf(w, "disk\t%s\nmodel\t%s\nserial\t%s\nsize\t%s, sectors of %d bytes, %s\n"+
		"holds\t%s\n",
		d.Device, cmp.Or(d.Model, "unknown"), cmp.Or(d.Serial, "none"), volume.FormatSize(d.Size),
		d.SectorSize, kind, d.Summary())

	for _, p := range d.Parts {
		fmt.Fprintf(w, "\t%s\n", p)
	}

	fmt.Fprintf(w, "image\t%s, %s to write\n", file, mebibytes(im.Bytes()))
	fmt.Fprintf(w, "machine.yaml\t%s\n", f.machineLine(text))
	_ = w.Flush()
}

// machineLine says which machine.yaml the disk will have.
func (f *flashing) machineLine(text string) string {
	switch {
	case f.machine != "":
		return f.machine
	case text != "":
		return "of the image, as loamctl inspect shows it; --machine FILE puts another"
	}
	return "none: the machine waits for one, on a drive labelled LOAM for instance; " +
		"--machine FILE puts one"
}

// rehearse checks what is left to check before the disk is written, and says
// what would be where. It writes nothing.
func (f *flashing) rehearse(ctx context.Context, d volume.Disk, im flash.Image) error {
	if f.wipe != "" {
		if err := f.confirm(ctx, d); err != nil {
			return err
		}
	}
	if err := flash.Probe(d.Device); err != nil {
		return fmt.Errorf("%s: %w", d.Device, err)
	}

	w := tabwriter.NewWriter(f.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\nwould write %s to %s:\n", mebibytes(im.Bytes()), d.Device)
	for _, p := range im.Table.Partitions {
		fmt.Fprintf(w, "  %d\t%s\tat %s\t%s\n",
			p.Index, p.Label, mebibytes(p.Start), mebibytes(p.Size))
	}
	if free := d.Size - im.Table.DiskSize; free > 0 {
		fmt.Fprintf(w, "  \tfor the last partition to grow\tat %s\t%s\n",
			mebibytes(im.Table.DiskSize), mebibytes(free))
	}

	fmt.Fprintf(w, "All that the disk holds would be lost. Nothing was written.\n")
	return w.Flush()
}
