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
	"github.com/loam-os/loam/partitions"
)

// writeLive makes what a node starts from without a disk of its own: the PXE
// set, and the USB installer. Both know the packed disk image by its digest.
func (im images) writeLive(boot bootFiles, packed manifest.File) error {
	return im.steps.Do("PXE set, installer (usb.raw)", "", func(io.Writer) error {
		_, archive, err := packInitramfs(im.tree.Dir, im.programs.live, boot.template, liveModules)
		if err != nil {
			return err
		}

		if err := im.writePXE(boot, archive); err != nil {
			return err
		}
		return im.writeInstaller(boot, archive, packed)
	})
}

// writePXE writes the UKI, and kernel and initramfs for iPXE.
func (im images) writePXE(boot bootFiles, archive []byte) error {
	// as systemd-stub would put them together
	initrd := slices.Concat(boot.microcode, archive)
	if err := os.WriteFile(im.file(image.InitrdSuffix), initrd, 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(im.file(image.KernelSuffix), boot.linux, 0o644); err != nil {
		return err
	}

	uki, err := makeUKI(im.plan, im.plan.LiveCmdline, boot, archive)
	if err != nil {
		return err
	}

	return os.WriteFile(im.file(image.PXESuffix), uki, 0o644)
}

// writeInstaller writes the USB installer with the packed disk image.
func (im images) writeInstaller(boot bootFiles, archive []byte, packed manifest.File) error {
	uki, err := makeUKI(im.plan, im.plan.InstallerCmdline(packed.SHA256), boot, archive)
	if err != nil {
		return err
	}

	disk, err := os.Open(filepath.Join(im.dir, packed.Name))
	if err != nil {
		return err
	}
	defer disk.Close()

	installer := im.file(image.InstallerSuffix)
	err = output.WriteInstaller(installer, packed.SHA256, []esp.File{
		{Path: loader.Path(im.plan.Spec.Arch), Data: boot.loader},
		{Path: im.plan.UKI, Data: uki},
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
