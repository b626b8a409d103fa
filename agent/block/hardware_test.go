package block_test

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/block"
)

func TestHardware(t *testing.T) {
	for _, test := range []struct {
		name, device string
		files        map[string]string
		want         []string
	}{
		{
			name:   "virtio-blk",
			device: "pci0000:00/0000:00:04.0/virtio1/block/vda",
			want:   []string{"pci 04.0"},
		},
		{
			name:   "NVMe behind a bridge",
			device: "pci0000:00/0000:00:1c.0/0000:02:00.0/nvme/nvme0/nvme0n1",
			files: map[string]string{
				"pci0000:00/0000:00:1c.0/0000:02:00.0/nvme/nvme0/nvme0n1/nsid": "1\n",
			},
			want: []string{"pci 1c.0", "pci 00.0", "nvme 1"},
		},
		{
			name:   "SATA",
			device: "pci0000:00/0000:00:1f.2/ata3/host2/target2:0:0/2:0:0:0/block/sda",
			files:  map[string]string{"pci0000:00/0000:00:1f.2/ata3/ata_port/ata3/port_no": "2\n"},
			want:   []string{"pci 1f.2", "sata 1"},
		},
		{
			name:   "virtio-scsi",
			device: "pci0000:00/0000:00:05.0/virtio2/host6/target6:0:1/6:0:1:2/block/sdb",
			want:   []string{"pci 05.0", "scsi 1:2"},
		},
		{
			name:   "SD",
			device: "pci0000:00/0000:00:04.0/mmc_host/mmc0/mmc0:4567/block/mmcblk0",
			want:   []string{"pci 04.0"},
		},
		{
			name:   "USB",
			device: "pci0000:00/0000:00:14.0/usb2/2-1/2-1:1.0/host4/target4:0:0/4:0:0:0/block/sdd",
			want:   []string{"pci 14.0"},
		},
		{name: "RBD", device: "rbd/0/block/rbd0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := fstest.MapFS{"sys/block/disk": {
				Data: []byte("../devices/" + test.device),
				Mode: fs.ModeSymlink,
			}}
			for name, text := range test.files {
				root["sys/devices/"+name] = &fstest.MapFile{Data: []byte(text)}
			}
			if diff := cmp.Diff(test.want, block.Hardware(root, "disk")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
