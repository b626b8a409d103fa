package node

import (
	"bytes"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/loam-os/loam/agent/block"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/firmware/uki"
)

// buses are the buses of vm.Config that a disk may be on: what sysfs then shows
// of the disk, and the partition that has the root. Where firmware cannot start
// from the bus, QEMU starts the kernel: EDK2 has no UAS, and QEMU's device
// speaks nothing else; Debian's builds have no driver for SD, and the build for
// arm64 none for AHCI.
var buses = []struct {
	name, bus, device, root string
	notCloud                bool
	direct                  []string // architectures
}{
	{name: "virtio-blk", device: "virtio/drivers/virtio_blk/*/block/vda", root: "vda4"},
	{
		name:   "virtio-scsi",
		bus:    "virtio-scsi",
		device: "virtio/drivers/virtio_scsi/*/host*/target*/*/block/sda",
		root:   "sda4",
	},
	{
		name:   "NVMe",
		bus:    "nvme",
		device: "pci/drivers/nvme/*/nvme/nvme0",
		root:   "nvme0n1p4",
	},
	{
		name:   "AHCI",
		bus:    "ahci",
		device: "pci/drivers/ahci/*/ata*/host*/target*/*/block/sda",
		root:   "sda4",
		direct: []string{"arm64"},
	},
	{
		name:     "USB",
		bus:      "usb",
		device:   "usb/drivers/usb-storage/*:*/host*/target*/*/block/sda",
		root:     "sda4",
		notCloud: true,
	},
	{
		name:     "USB, UAS",
		bus:      "uas",
		device:   "usb/drivers/uas/*:*/host*/target*/*/block/sda",
		root:     "sda4",
		notCloud: true,
		direct:   []string{"amd64", "arm64"},
	},
	{
		name:     "SD",
		bus:      "sd",
		device:   "pci/drivers/sdhci-pci/*/mmc_host/mmc0/*/block/mmcblk0",
		root:     "mmcblk0p4",
		notCloud: true,
		direct:   []string{"amd64", "arm64"},
	},
}

// TestDisksOnEveryBus boots the image from a disk on each bus that its kernel
// is for, and applies.
func TestDisksOnEveryBus(t *testing.T) {
	onlyInPlaces(t)
	b := open(t)
	credentials := map[string]string{
		"loam.machine": machineYAML(b.manifest.Arch, "source: {credential: {name: loam.config}}\n"),
		"loam.config":  string(readFile(t, "../../examples/hello.yaml")),
	}

	for _, bus := range buses {
		t.Run(bus.name, func(t *testing.T) {
			parallel(t, 2*time.Minute)
			if bus.notCloud && b.manifest.Profile == "cloud" {
				t.Skip("the cloud kernel has no driver")
			}

			direct := slices.Contains(bus.direct, b.manifest.Arch)
			if direct && b.manifest.Arch == "arm64" {
				t.Skip("without firmware there is no SMBIOS on arm64, so no credential to apply")
			}

			m := b.flash(t, b.file(".raw"))
			m.config.Bus = bus.bus

			if direct {
				m.direct()
			}

			n := m.on(t, credentials)
			n.applied()
			n.shell()
			n.sh("ls -d /sys/bus/" + bus.device)
			n.want(`sed -n 's/.*"root":"\([^"]*\)".*/\1/p' /run/loam/boot.json`, "/dev/"+bus.root)

			if s := n.status(); s.Phase != status.Applied || s.RootHash != b.manifest.RootHash {
				t.Errorf("status %+v", s)
			}

			n.want("systemctl --failed --no-legend | wc -l", "0")
			ours, udevs := n.paths(
				n.sh("basename $(dirname $(readlink -f /sys/class/block/" + bus.root + "))"),
			)
			if (len(ours) == 0) != bus.notCloud || slices.ContainsFunc(ours, func(p string) bool {
				return !slices.Contains(udevs, p)
			}) {
				t.Errorf("names in /dev/disk/by-path %q, udev's are %q", ours, udevs)
			}

			n.off()
		})
	}
}

// TestTheLeastProcessor boots on the default processor of Proxmox and QEMU:
// x86-64-v1.
func TestTheLeastProcessor(t *testing.T) {
	matrix(t)
	b := open(t)
	if b.manifest.Arch != "amd64" {
		t.Skip("arm64 has no lesser processor")
	}

	m := b.flash(t, b.file(".raw"))
	m.config.CPU = "kvm64"
	n := m.on(t, map[string]string{
		"loam.machine": machineYAML(b.manifest.Arch, "source: {credential: {name: loam.config}}\n"),
		"loam.config":  string(readFile(t, "../../examples/hello.yaml")),
	})

	n.applied()
}

// paths are the names that a disk gets in /dev/disk/by-path without udev, and
// the names that udev gives it.
func (n *node) paths(disk string) (ours, udevs []string) {
	n.t.Helper()
	root := fstest.MapFS{"sys/block/" +
		disk: {Data: []byte(n.sh("readlink /sys/block/" + disk)), Mode: fs.ModeSymlink}}
	for line := range strings.Lines(
		n.sh("d=$(readlink -f /sys/block/" + disk +
			`); while [ "$d" != /sys ]; do for f in $d/nsid $d/ata_port/*/port_no $d/host*; do test -e $f && echo ${f#/} $(cat $f 2>/dev/null); done; d=${d%/*}; done`),
	) {
		file, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		root[file] = &fstest.MapFile{Data: []byte(text)}
	}

	udevs = strings.Fields(
		n.sh("udevadm info -q symlink /dev/" + disk +
			` | tr ' ' '\n' | sed -n 's,^disk/by-path/,,p'`),
	)

	return block.Paths(root, disk), udevs
}

// direct makes QEMU start the kernel of the image, without firmware and loader.
func (m *machine) direct() {
	m.t.Helper()
	sections, err := uki.Parse(bytes.NewReader(readFile(m.t, m.build.file(".efi"))))
	if err != nil {
		m.t.Fatal(err)
	}

	put := func(name string) string {
		data, _ := sections.Section(name)
		return m.file(name[1:], string(data))
	}

	m.config.FirmwareCode = ""
	m.config.FirmwareVars = ""
	m.config.Kernel = put(".linux")
	m.config.Initrd = put(".initrd")
	cmdline, _ := sections.Section(".cmdline")
	m.config.Cmdline = string(bytes.TrimRight(cmdline, "\x00\n"))
}
