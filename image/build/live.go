package build

import (
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/loam-os/loam/firmware/loader"
	"github.com/loam-os/loam/image"
	"github.com/loam-os/loam/image/esp"
	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/image/output"
	"github.com/loam-os/loam/image/rootfs"
	"github.com/loam-os/loam/partitions"
)

// writeLive makes what a node starts from without a disk of its own: the PXE
// set, and the USB installer. Both know the packed disk image by its digest.
func (b *Build) writeLive(
	dir string, plan image.Plan, tree rootfs.Root, programs programs, boot bootFiles,
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
func (b *Build) writePXE(dir string, plan image.Plan, boot bootFiles, archive []byte) error {
	// as systemd-stub would put them together
	initrd := slices.Concat(boot.microcode, archive)
	if err := os.WriteFile(b.output(dir, image.InitrdSuffix), initrd, 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(b.output(dir, image.KernelSuffix), boot.linux, 0o644); err != nil {
		return err
	}

	uki, err := makeUKI(plan, plan.LiveCmdline, boot, archive)
	if err != nil {
		return err
	}

	return os.WriteFile(b.output(dir, image.PXESuffix), uki, 0o644)
}

// writeInstaller writes the USB installer with the packed disk image.
func (b *Build) writeInstaller(
	dir string, plan image.Plan, boot bootFiles, archive []byte, packed manifest.File,
) error {
	uki, err := makeUKI(plan, plan.InstallerCmdline(packed.SHA256), boot, archive)
	if err != nil {
		return err
	}

	disk, err := os.Open(filepath.Join(dir, packed.Name))
	if err != nil {
		return err
	}
	defer disk.Close()

	installer := b.output(dir, image.InstallerSuffix)
	err = output.WriteInstaller(installer, packed.SHA256, []esp.File{
		{Path: loader.Path(plan.Spec.Arch), Data: boot.loader},
		{Path: plan.UKI, Data: uki},
		{Path: loader.Conf, Data: []byte(loaderConfig)},
		{Path: "loader/entries.srel", Data: []byte("type1\n")},
		{
			Path:    partitions.InstallerFile,
			Content: io.NewSectionReader(disk, 0, packed.Size),
		},
		{Path: partitions.MachineFile, Data: []byte(output.InstallerMachine)},
	})
	if err != nil {
		return err
	}

	return output.Convert(installer+".zst", installer, output.PackedFast, io.Discard)
}
