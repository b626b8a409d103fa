package build

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/loam-os/loam/firmware/kmod"
)

// bootModules are what a machine may need before the root file system is
// there: file systems, and the buses and controllers that disks hang on. Those
// that a kernel does not have are left out, save the required.
var bootModules = struct{ required, others []string }{
	required: []string{"dm_verity", "erofs", "overlay", "ext4", "quota_v2", "dm_crypt", "xts"},
	others: []string{
		"efivarfs",
		// virtual machines
		"virtio_pci", "virtio_mmio", "virtio_blk", "virtio_scsi", "virtio_rng", "xen_blkfront",
		"hv_vmbus", "hv_storvsc", "vmw_pvscsi",
		// SATA, SCSI, NVMe
		"ahci", "ata_piix", "sd_mod", "nvme", "vmd", "megaraid_sas", "mpt3sas", "mpi3mr",
		"smartpqi", "hpsa", "aacraid",
		// USB
		"xhci_pci", "xhci_pci_renesas", "xhci_hcd", "ehci_pci", "uhci_hcd", "usb_storage", "uas",
		// SD, eMMC, UFS
		"mmc_block", "sdhci_pci", "sdhci_acpi", "ufshcd_pci",
		// arm64 boards
		"sdhci_iproc", "sdhci_of_arasan", "bcm2835", "pcie_brcmstb", "phy_generic",
		// watchdogs, and the kernel's software watchdog for machines without
		// one
		"i6300esb", "iTCO_wdt", "sp5100_tco", "wdat_wdt", "sbsa_gwdt", "bcm2835_wdt", "softdog",
		// processor extensions that speed up dm-verity
		"sha256_ssse3", "sha256_ce", "sha2_ce",
		// and dm-crypt
		"aesni_intel", "aes_ce_blk",
	},
}

// liveModules are what a machine needs besides to get its system over the
// network, or from files, and to install it.
var liveModules = []string{
	"loop",
	// virtual machines
	"virtio_net", "vmxnet3", "hv_netvsc", "xen_netfront", "ena", "gve",
	// network interfaces
	"e1000", "e1000e", "igb", "igc", "ixgbe", "i40e", "ice", "r8169", "tg3", "bnxt_en", "bnx2",
	"bnx2x", "mlx4_en", "mlx5_core", "atlantic", "sfc", "qede", "ionic",
	// those on USB ports, and what links them
	"r8152", "ax88179_178a", "asix", "cdc_ether", "cdc_ncm",
	// arm64 boards
	"genet", "macb", "stmmac_platform", "dwmac_generic", "mvneta", "thunderx_nicvf", "hns3",
	"smsc95xx", "lan78xx",
}

// readModules reads the depmod texts of the one kernel in a root tree.
func readModules(tree string) (kernel string, index *kmod.Index, err error) {
	dirs, err := filepath.Glob(filepath.Join(tree, "usr/lib/modules/*/modules.dep"))
	if err != nil || len(dirs) != 1 {
		return "", nil, fmt.Errorf("root tree %s: %d kernels in usr/lib/modules, not one",
			tree, len(dirs))
	}

	dir := filepath.Dir(dirs[0])
	var f kmod.Files
	for name, text := range map[string]*[]byte{
		"modules.dep": &f.Dep, "modules.alias": &f.Alias, "modules.softdep": &f.Softdep,
		"modules.builtin": &f.Builtin,
	} {
		*text, err = os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return "", nil, fmt.Errorf("kernel modules: %w", err)
		}
	}

	index, err = kmod.Parse(f)
	return filepath.Base(dir), index, err
}

// selectModules is the subset that goes into the initramfs: bootModules, and
// more.
func selectModules(index *kmod.Index, more []string) (files []string, texts kmod.Files, err error) {
	names := slices.Clone(bootModules.required)
	for _, name := range slices.Concat(bootModules.others, more) {
		if index.Has(name) {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, cmp.Compare[string])
	return index.Subset(names)
}
