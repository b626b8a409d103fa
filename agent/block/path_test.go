package block_test

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/block"
)

// TestPaths has the names that udev 257 gives. TestDisksOnEveryBus asks udev.
func TestPaths(t *testing.T) {
	for _, test := range []struct {
		name, device string
		files        map[string]string
		want         []string
	}{
		{
			name:   "virtio-blk",
			device: "pci0000:00/0000:00:04.0/virtio1/block/vda",
			want:   []string{"pci-0000:00:04.0"},
		},
		{
			name:   "NVMe behind a bridge",
			device: "pci0000:00/0000:00:1c.0/0000:02:00.0/nvme/nvme0/nvme0n1",
			files: map[string]string{
				"pci0000:00/0000:00:1c.0/0000:02:00.0/nvme/nvme0/nvme0n1/nsid": "1\n",
			},
			want: []string{"pci-0000:02:00.0-nvme-1"},
		},
		{
			name:   "NVMe in a domain of its own",
			device: "pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:06.0/10000:e1:00.0/nvme/nvme1/nvme1n2",
			files: map[string]string{
				"pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:06.0/10000:e1:00.0/nvme/nvme1/nvme1n2/nsid": "2\n",
			},
			want: []string{"pci-0000:00:0e.0-pci-10000:e1:00.0-nvme-2"},
		},
		{
			name:   "NVMe behind a host bridge of a device tree",
			device: "platform/soc/4010000000.pcie/pci0000:00/0000:00:01.0/nvme/nvme0/nvme0n1",
			files: map[string]string{
				"platform/soc/4010000000.pcie/pci0000:00/0000:00:01.0/nvme/nvme0/nvme0n1/nsid": "1\n",
			},
			want: []string{"platform-4010000000.pcie-pci-0000:00:01.0-nvme-1"},
		},
		{
			name:   "ATA",
			device: "pci0000:00/0000:00:1f.2/ata3/host2/target2:0:0/2:0:0:0/block/sda",
			files:  map[string]string{"pci0000:00/0000:00:1f.2/ata3/ata_port/ata3/port_no": "2\n"},
			want:   []string{"pci-0000:00:1f.2-ata-2.0", "pci-0000:00:1f.2-ata-2"},
		},
		{
			name:   "ATA behind a port multiplier",
			device: "pci0000:00/0000:00:1f.2/ata3/host2/target2:1:0/2:1:0:0/block/sda",
		},
		{
			name:   "virtio-scsi",
			device: "pci0000:00/0000:00:05.0/virtio2/host6/target6:0:1/6:0:1:2/block/sdb",
			files:  map[string]string{"pci0000:00/0000:00:05.0/virtio2/host6/uevent": ""},
			want:   []string{"pci-0000:00:05.0-scsi-0:0:1:2"},
		},
		{
			name:   "a RAID controller with two hosts",
			device: "pci0000:00/0000:00:01.0/0000:01:00.0/host11/target11:2:0/11:2:0:0/block/sdc",
			files: map[string]string{
				"pci0000:00/0000:00:01.0/0000:01:00.0/host11/uevent": "",
				"pci0000:00/0000:00:01.0/0000:01:00.0/host10/uevent": "",
			},
			want: []string{"pci-0000:01:00.0-scsi-1:2:0:0"},
		},
		{
			name:   "USB, where a port of USB 2 is called as one of USB 3",
			device: "pci0000:00/0000:00:14.0/usb2/2-1/2-1.4/2-1.4:1.0/host4/target4:0:0/4:0:0:0/block/sdd",
			files: map[string]string{
				"pci0000:00/0000:00:14.0/usb2/2-1/2-1.4/2-1.4:1.0/host4/uevent": "",
			},
		},
		{
			name:   "SD, which udev gives none",
			device: "pci0000:00/0000:00:06.0/mmc_host/mmc0/mmc0:4567/block/mmcblk0",
		},
		{
			name:   "the second disk of a cable",
			device: "pci0000:00/0000:00:01.1/ata1/host0/target0:0:1/0:0:1:0/block/sdb",
			files:  map[string]string{"pci0000:00/0000:00:01.1/ata1/ata_port/ata1/port_no": "1\n"},
			want:   []string{"pci-0000:00:01.1-ata-1.1"},
		},
		{
			name:   "a host bridge of ACPI",
			device: "LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/MSFT1000:00/pciabcd:00/abcd:00:00.0/virtio1/block/vda",
		},
		{
			name:   "SAS, whose names have addresses",
			device: "pci0000:00/0000:01:00.0/host0/port-0:0/end_device-0:0/target0:0:0/0:0:0:0/block/sda",
		},
		{name: "made by the kernel", device: "virtual/block/dm-0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := fstest.MapFS{"sys/block/disk": {
				Data: []byte("../devices/" + test.device),
				Mode: fs.ModeSymlink,
			}}
			for name, text := range test.files {
				root["sys/devices/"+name] = &fstest.MapFile{Data: []byte(text)}
			}
			if diff := cmp.Diff(test.want, block.Paths(root, "disk")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
