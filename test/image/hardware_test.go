package image

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loam-os/loam/firmware/device"
	"github.com/loam-os/loam/firmware/kmod"
	"github.com/loam-os/loam/firmware/uki"
	"github.com/loam-os/loam/test/judge"
)

// hardware is the hardware that must work, by the module that drives it: a
// machine boots from a disk on it, so that the module is in every initramfs, or
// by network, so that it is in the initramfs with network, or the root file
// system is enough. Kernels of the profile cloud have no drivers for real
// machines.
var hardware = []struct {
	name, module string
	boots        how
	notCloud     bool
}{
	{name: "SATA", module: "ahci", boots: fromDisk},
	{name: "NVMe", module: "nvme", boots: fromDisk},
	{
		name:     "USB",
		module:   "xhci_pci",
		boots:    fromDisk,
		notCloud: true,
	},
	{
		name:     "USB, controllers of Renesas",
		module:   "xhci_pci_renesas",
		boots:    fromDisk,
		notCloud: true,
	},
	{
		name:     "USB storage",
		module:   "usb_storage",
		boots:    fromDisk,
		notCloud: true,
	},
	{
		name:     "USB storage, UAS",
		module:   "uas",
		boots:    fromDisk,
		notCloud: true,
	},
	{
		name:     "SD, eMMC",
		module:   "mmc_block",
		boots:    fromDisk,
		notCloud: true,
	},
	{
		name:     "SD, eMMC",
		module:   "sdhci_pci",
		boots:    fromDisk,
		notCloud: true,
	},
	{
		name:     "SD, eMMC",
		module:   "sdhci_acpi",
		boots:    fromDisk,
		notCloud: true,
	},
	{name: "disks of SCSI, SATA and USB", module: "sd_mod", boots: fromDisk},
	{name: "virtio disk", module: "virtio_blk", boots: fromDisk},
	{name: "virtio SCSI", module: "virtio_scsi", boots: fromDisk},
	{name: "Hyper-V disk", module: "hv_storvsc", boots: fromDisk},
	{name: "virtio network", module: "virtio_net", boots: byNetwork},
	{name: "Hyper-V network", module: "hv_netvsc", boots: byNetwork},
	{
		name:     "Intel 1 Gb/s",
		module:   "e1000e",
		boots:    byNetwork,
		notCloud: true,
	},
	{
		name:     "Intel 1 Gb/s, servers",
		module:   "igb",
		boots:    byNetwork,
		notCloud: true,
	},
	{
		name:     "Intel 2.5 Gb/s",
		module:   "igc",
		boots:    byNetwork,
		notCloud: true,
	},
	{
		name:     "Intel 10 Gb/s",
		module:   "ixgbe",
		boots:    byNetwork,
		notCloud: true,
	},
	{
		name:     "Intel 40 Gb/s",
		module:   "i40e",
		boots:    byNetwork,
		notCloud: true,
	},
	{
		name:     "Intel 100 Gb/s",
		module:   "ice",
		boots:    byNetwork,
		notCloud: true,
	},
	{
		name:     "Realtek",
		module:   "r8169",
		boots:    byNetwork,
		notCloud: true,
	},
	{
		name:     "Broadcom 1 Gb/s",
		module:   "tg3",
		boots:    byNetwork,
		notCloud: true,
	},
	{
		name:     "Broadcom 1 Gb/s, older",
		module:   "bnx2",
		boots:    byNetwork,
		notCloud: true,
	},
	{
		name:     "Broadcom 10 Gb/s",
		module:   "bnx2x",
		boots:    byNetwork,
		notCloud: true,
	},
	{
		name:     "Broadcom 25 Gb/s",
		module:   "bnxt_en",
		boots:    byNetwork,
		notCloud: true,
	},
	{name: "Mellanox", module: "mlx5_core", boots: byNetwork},
	{name: "machine.yaml: CD-ROM", module: "isofs"},
	{name: "machine.yaml: CD-ROM", module: "sr_mod"},
	{name: "machine.yaml: FAT", module: "vfat"},
	{name: "machine.yaml: fw_cfg", module: "qemu_fw_cfg"},
}

type how int

const (
	byNetwork how = iota + 1
	fromDisk
)

// hasDrivers compares hardware with what is in the kernel, in the initramfs of
// a disk and of the network, and in the root file system.
func (b build) hasDrivers(t *testing.T, root string) {
	builtin, files := b.drivers(t, root)
	disk := b.modules(t, ".efi")
	live := b.modules(t, ".pxe.efi")
	for _, h := range hardware {
		has := builtin[h.module] || (files[h.module] != "" &&
			(disk[h.module] || h.boots != fromDisk) && (live[h.module] || h.boots == 0))
		if want := !h.notCloud || b.manifest.Profile != "cloud"; has != want {
			t.Errorf("%s, %s: %t, want %t; in the kernel %t, in the initramfs %t, "+
				"in that of the network %t, in the root %q",
				h.name, h.module, has, want, builtin[h.module], disk[h.module], live[h.module],
				files[h.module])
		}
	}
}

// drivers are the modules in the kernel, and, with their files, in the root
// file system.
func (b build) drivers(
	t *testing.T, root string,
) (builtin map[string]bool, files map[string]string) {
	t.Helper()
	builtin = map[string]bool{}
	files = map[string]string{}

	dir := filepath.Join(root, "usr/lib/modules", b.manifest.Kernel)
	for _, file := range strings.Fields(read(t, dir, "modules.builtin")) {
		builtin[kmod.Name(file)] = true
	}

	err := filepath.WalkDir(dir, func(file string, _ fs.DirEntry, err error) error {
		if path.Ext(file) == ".ko" {
			files[kmod.Name(file)] = file
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	return builtin, files
}

// archive is the section of a UKI, a cpio archive, as a file.
func (b build) archive(t *testing.T, suffix, section string) (file string, ok bool) {
	t.Helper()
	f, err := os.Open(b.file(t, suffix))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()

	sections, err := uki.Parse(f)
	if err != nil {
		t.Fatal(err)
	}

	data, ok := sections.Section(section)
	file = filepath.Join(t.TempDir(), "archive")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}

	return file, ok
}

// modules are those in the initramfs of a UKI.
func (b build) modules(t *testing.T, suffix string) map[string]bool {
	t.Helper()
	file, _ := b.archive(t, suffix, ".initrd")
	judge.Run(t, "zstd", "-q", "-d", file, "-o", file+".cpio")

	modules := map[string]bool{}
	for name := range strings.FieldsSeq(judge.Run(t, "cpio", "-it", "--quiet", "-F",
		file+".cpio")) {
		if path.Ext(name) == ".ko" {
			modules[kmod.Name(name)] = true
		}
	}

	return modules
}

// hasFirmware: what drivers of the hardware ask for, as modinfo tells, is in
// the image or on the list with a reason, and nothing else is in it.
func (b build) hasFirmware(t *testing.T, root string) {
	list := b.firmware(t)
	dir := filepath.Join(root, device.Dir)
	_, modules := b.drivers(t, root)
	for _, h := range hardware {
		if modules[h.module] == "" || b.manifest.Profile == "cloud" {
			continue
		}
		for _, name := range strings.Fields(judge.Run(t, "modinfo", "-F", "firmware",
			modules[h.module])) {
			_, err := os.Stat(filepath.Join(dir, name))
			if has, without := err == nil, list.LeavesOut(name); has == without {
				t.Errorf("%s asks for %s: in the image %t, left out %t",
					h.module, name, has, without)
			}
		}
	}

	err := filepath.WalkDir(dir, func(file string, e fs.DirEntry, err error) error {
		if name, _ := filepath.Rel(dir, file); err == nil && !e.IsDir() && !list.Has(name) {
			t.Errorf("%s is in the image, and not on the list", name)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// firmware is the list for the build.
func (b build) firmware(t *testing.T) device.List {
	t.Helper()
	if b.manifest.Profile == "cloud" {
		return device.List{}
	}

	list, err := device.Metal(b.manifest.Arch)
	if err != nil {
		t.Fatal(err)
	}

	return list
}

// TestFirmwareIsAsLargeAsListed to a tenth, which leaves room for updates.
func TestFirmwareIsAsLargeAsListed(t *testing.T) {
	dir := filepath.Join(judge.Dir(t, "LOAM_ROOT_TREE"), device.Dir)
	for _, e := range underTest(t).firmware(t).Entries {
		files, err := filepath.Glob(filepath.Join(dir, e.Pattern))
		if err != nil {
			t.Fatal(err)
		}

		var size int64
		for _, f := range files {
			info, err := os.Lstat(f)
			if err != nil {
				t.Fatal(err)
			}
			size += info.Size()
		}
		if kib := (size + 1023) / 1024; kib*10 > e.KiB*11 || kib*10 < e.KiB*9 {
			t.Errorf("%s: %d KiB, listed %d", e.Pattern, kib, e.KiB)
		}
	}
}

// TestMicrocode looks at the archive that the kernel searches for microcode, in
// the UKI and at the start of the PXE set's initramfs: a container of AMD's
// begins with "DMA\0", an update of Intel's with header version 1 (Intel SDM,
// volume 3, 11.11.1).
func TestMicrocode(t *testing.T) {
	b := underTest(t)
	archive, ok := b.archive(t, ".efi", ".ucode")
	if want := b.manifest.Profile == "metal" && b.manifest.Arch == "amd64"; ok != want {
		t.Fatalf("microcode in the UKI: %t, want %t", ok, want)
	}
	if !ok {
		return
	}

	if !strings.HasPrefix(read(t, "", b.file(t, ".initrd")), read(t, "", archive)) {
		t.Error("the initramfs of the PXE set does not begin with it")
	}

	for name, magic := range map[string]string{
		"AuthenticAMD.bin": "DMA\x00",
		"GenuineIntel.bin": "\x01\x00\x00\x00",
	} {
		out := judge.Run(t, "cpio", "-i", "--to-stdout", "--quiet", "-F", archive,
			"kernel/x86/microcode/"+name)
		if len(out) < 100<<10 || !strings.HasPrefix(out, magic) {
			t.Errorf("%s: %d bytes, begins with %.4q", name, len(out), out)
		}
	}
}
