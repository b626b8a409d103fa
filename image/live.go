package image

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/uuid"

	"github.com/loam-os/loam/firmware/loader"
	"github.com/loam-os/loam/image/esp"
	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/image/rootfs"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/gpt"
)

// writeLive makes what a node starts from without a disk of its own: the PXE
// set, and the USB installer. Both know the packed disk image by its digest.
func (b *Build) writeLive(
	dir string, plan Plan, tree rootfs.Root, programs programs, boot bootFiles,
	packed manifest.File,
) error {
	return b.Steps.Do("PXE set, installer (usb.raw)", "", func(io.Writer) error {
		_, archive, err := packInitramfs(tree.Dir, programs.live, boot.template, liveModules)
		if err != nil {
			return err
		}

		if err := b.writePXE(dir, plan, boot, archive); err != nil {
			return err
		}
		return b.writeInstaller(dir, plan, boot, archive, packed)
	})
}

// writePXE writes the UKI, and kernel and initramfs for iPXE.
func (b *Build) writePXE(dir string, plan Plan, boot bootFiles, archive []byte) error {
	// as systemd-stub would put them together
	initrd := slices.Concat(boot.microcode, archive)
	if err := os.WriteFile(b.output(dir, initrdSuffix), initrd, 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(b.output(dir, kernelSuffix), boot.linux, 0o644); err != nil {
		return err
	}

	image, err := makeUKI(plan, plan.LiveCmdline, boot, archive)
	if err != nil {
		return err
	}

	return os.WriteFile(b.output(dir, pxeSuffix), image, 0o644)
}

// writeInstaller writes the USB installer with the packed disk image.
func (b *Build) writeInstaller(
	dir string, plan Plan, boot bootFiles, archive []byte, packed manifest.File,
) error {
	image, err := makeUKI(plan, plan.live(packed.SHA256, "stick"), boot, archive)
	if err != nil {
		return err
	}

	disk, err := os.Open(filepath.Join(dir, packed.Name))
	if err != nil {
		return err
	}
	defer disk.Close()

	stick := b.output(dir, stickSuffix)
	err = writeStick(stick, packed.SHA256, []esp.File{
		{Path: loader.Path(plan.Spec.Arch), Data: boot.loader},
		{Path: plan.UKI, Data: image},
		{Path: loaderConf, Data: []byte(loaderConfig)},
		{Path: "loader/entries.srel", Data: []byte("type1\n")},
		{
			Path:    partitions.InstallerFile,
			Content: io.NewSectionReader(disk, 0, packed.Size),
		},
		{Path: partitions.MachineFile, Data: []byte(stickMachine)},
	})
	if err != nil {
		return err
	}

	return convert(stick+".zst", stick, writePackedFast)
}

// stickSize is the size of a USB installer's file system in bytes: FAT32 with
// clusters of 8 KiB has at least 512 MiB.
const stickSize = 768 << 20

// stickTable is the partition table of an installer's stick: sticks have
// sectors of 512 bytes.
func stickTable(sum string) (gpt.Table, error) {
	id, err := partitions.InstallerUUID(sum)
	if err != nil {
		return gpt.Table{}, err
	}

	return gpt.Table{
		DiskGUID:   uuid.NewSHA1(id, []byte("disk")),
		SectorSize: 512,
		DiskSize:   stickSize + 2*gpt.Alignment,
		Partitions: []gpt.Partition{{
			Index: 1,
			Type:  partitions.BasicData,
			UUID:  id,
			Label: partitions.InstallerLabel,
			Start: gpt.Alignment,
			Size:  stickSize,
		}},
	}, nil
}

// writeStick writes a stick with these files, of which one is the packed disk
// image with that SHA-256.
func writeStick(file, sum string, files []esp.File) (err error) {
	table, err := stickTable(sum)
	if err != nil {
		return err
	}

	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()

	part := table.Partitions[0]
	err = errors.Join(f.Truncate(table.DiskSize), table.Create(f),
		esp.Write(io.NewOffsetWriter(f, part.Start), part.Size, table.SectorSize,
			part.UUID.ID(), files))
	if err != nil {
		return fmt.Errorf("write installer: %w", err)
	}

	return nil
}

// stickMachine is the machine.yaml of a new stick: it installs nothing.
const stickMachine = `# What a machine that starts from this stick becomes. Say which disk it installs
# itself on; without that it runs from memory and touches no disk. On the console
# it says what it did, or why not, and which disks it has.
apiVersion: loam.dev/v1alpha1
kind: Machine

# install:
#   disk: {serial: S3Z8NB0K}    # or path, model, minSize, maxSize, onlyEmpty: true
#   wipe: S3Z8NB0K              # only if all that is on that disk may go
`
