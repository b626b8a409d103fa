package block_test

import (
	"errors"
	"io/fs"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/block"
)

// sysfs returns a root directory with a disk that is a link to a directory of
// sys/devices with files.
func sysfs(name, device string, files map[string]string) fstest.MapFS {
	root := fstest.MapFS{
		"sys/block/" + name:     {Data: []byte("../devices/" + device), Mode: fs.ModeSymlink},
		"sys/devices/" + device: {Mode: fs.ModeDir | 0o755},
	}
	for file, text := range files {
		root["sys/devices/"+device+"/"+file] = &fstest.MapFile{Data: []byte(text)}
	}
	return root
}

func TestList(t *testing.T) {
	const (
		pci     = "pci0000:00/0000:00:04.0/"
		virtual = "virtual/block/"
		usb     = pci + "usb1/1-1/1-1:1.0/host4/target4:0:0/4:0:0:0/block/"
		sata    = pci + "ata1/host0/target0:0:0/0:0:0:0/block/"
	)

	for _, test := range []struct {
		name   string
		device string
		files  map[string]string
		want   block.Disk
	}{
		{
			name:   "a virtio-blk disk",
			device: pci + "virtio1/block/vda",
			files: map[string]string{
				"size":                     "2048\n",
				"queue/logical_block_size": "512\n",
				"removable":                "0\n",
				"ro":                       "0\n",
			},
			want: block.Disk{
				Name:       "vda",
				Kind:       block.Virtio,
				Size:       1 << 20,
				SectorSize: 512,
			},
		},
		{
			name:   "a virtio-blk disk after the 26th",
			device: pci + "virtio1/block/vdaa",
			want:   block.Disk{Name: "vdaa", Kind: block.Virtio},
		},
		{
			name: "an NVMe namespace with sectors of 4096 bytes, " +
				"whose size is in sectors of 512 all the same",
			device: pci + "nvme/nvme0/nvme0n1",
			files:  map[string]string{"size": "2048\n", "queue/logical_block_size": "4096\n"},
			want: block.Disk{
				Name:       "nvme0n1",
				Kind:       block.NVMe,
				Size:       1 << 20,
				SectorSize: 4096,
			},
		},
		{
			name:   "one of several paths to an NVMe namespace",
			device: pci + "nvme/nvme0/nvme0c0n1",
			files:  map[string]string{"size": "2048\n", "hidden": "1\n"},
			want: block.Disk{
				Name:   "nvme0c0n1",
				Kind:   block.NVMe,
				Size:   1 << 20,
				Hidden: true,
			},
		},
		{
			name:   "a SATA disk",
			device: sata + "sda",
			files:  map[string]string{"size": "2048\n", "hidden": "0\n"},
			want:   block.Disk{Name: "sda", Kind: block.SCSI, Size: 1 << 20},
		},
		{
			name:   "a SATA disk in a hot-swap bay",
			device: sata + "sda",
			files:  map[string]string{"removable": "1\n"},
			want:   block.Disk{Name: "sda", Kind: block.SCSI, Removable: true},
		},
		{
			name:   "a USB disk, which does not call itself removable",
			device: usb + "sdb",
			files:  map[string]string{"size": "2048\n", "removable": "0\n"},
			want: block.Disk{
				Name:      "sdb",
				Kind:      block.USB,
				Size:      1 << 20,
				Removable: true,
			},
		},
		{
			name:   "a USB drive with a write lock",
			device: usb + "sdb",
			files:  map[string]string{"ro": "1\n", "removable": "1\n"},
			want: block.Disk{
				Name:      "sdb",
				Kind:      block.USB,
				Removable: true,
				ReadOnly:  true,
			},
		},
		{
			name:   "an SD card",
			device: pci + "mmc_host/mmc0/mmc0:4567/block/mmcblk0",
			files:  map[string]string{"size": "2048\n"},
			want:   block.Disk{Name: "mmcblk0", Kind: block.MMC, Size: 1 << 20},
		},
		{
			name:   "a boot partition of an eMMC",
			device: pci + "mmc_host/mmc0/mmc0:0001/block/mmcblk0/mmcblk0boot1",
			files:  map[string]string{"size": "8192\n", "ro": "1\n"},
			want: block.Disk{
				Name:     "mmcblk0boot1",
				Kind:     block.MMCBoot,
				Size:     4 << 20,
				ReadOnly: true,
			},
		},
		{
			name:   "a general purpose partition of an eMMC",
			device: pci + "mmc_host/mmc0/mmc0:0001/block/mmcblk0/mmcblk0gp0",
			want:   block.Disk{Name: "mmcblk0gp0", Kind: block.MMC},
		},
		{
			name:   "a Xen disk",
			device: "vbd-51712/block/xvda",
			want:   block.Disk{Name: "xvda", Kind: block.Xen},
		},
		{
			name:   "an optical drive without a medium",
			device: pci + "ata2/host1/target1:0:0/1:0:0:0/block/sr0",
			files:  map[string]string{"size": "0\n", "removable": "1\n"},
			want:   block.Disk{Name: "sr0", Kind: block.Optical, Removable: true},
		},
		{
			name:   "an optical drive on USB",
			device: usb + "sr1",
			want:   block.Disk{Name: "sr1", Kind: block.Optical, Removable: true},
		},
		{
			name:   "a floppy drive",
			device: "platform/floppy.0/block/fd0",
			want:   block.Disk{Name: "fd0", Kind: block.Floppy},
		},
		{name: "an NBD", device: virtual + "nbd0", want: block.Disk{Name: "nbd0", Kind: block.NBD}},
		{
			name:   "an RBD",
			device: "rbd/0/block/rbd0",
			want:   block.Disk{Name: "rbd0", Kind: block.RBD, Network: "RBD"},
		},
		{
			name:   "a DRBD",
			device: virtual + "drbd0",
			want:   block.Disk{Name: "drbd0", Kind: block.DRBD},
		},
		{
			name:   "a RAM disk",
			device: virtual + "ram0",
			want:   block.Disk{Name: "ram0", Kind: block.RAM},
		},
		{
			name:   "a zram device",
			device: virtual + "zram0",
			want:   block.Disk{Name: "zram0", Kind: block.ZRAM},
		},
		{
			name:   "a loop device",
			device: virtual + "loop0",
			want:   block.Disk{Name: "loop0", Kind: block.Loop},
		},
		{
			name:   "a device of the device mapper",
			device: virtual + "dm-0",
			want:   block.Disk{Name: "dm-0", Kind: block.Mapped},
		},
		{
			name:   "an MD array",
			device: virtual + "md127",
			want:   block.Disk{Name: "md127", Kind: block.RAID},
		},
		{
			name:   "an MD array with a name",
			device: virtual + "md_home",
			want:   block.Disk{Name: "md_home", Kind: block.RAID},
		},
		{
			name:   "a bcache",
			device: virtual + "bcache0",
			want:   block.Disk{Name: "bcache0", Kind: block.Bcache},
		},
		{
			name:   "a ZFS volume",
			device: virtual + "zd0",
			want:   block.Disk{Name: "zd0", Kind: block.ZVol},
		},
		{
			name:   "an MTD",
			device: virtual + "mtdblock0",
			want:   block.Disk{Name: "mtdblock0", Kind: block.MTD},
		},
		{
			name:   "a disk of a RAID controller",
			device: pci + "cciss0/block/cciss!c0d0",
			want:   block.Disk{Name: "cciss!c0d0", Kind: block.Other},
		},
		{
			name:   "a disk whose size is not a number",
			device: pci + "virtio1/block/vda",
			files:  map[string]string{"size": "many\n"},
			want:   block.Disk{Name: "vda", Kind: block.Virtio},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := sysfs(test.want.Name, test.device, test.files)
			got, err := block.List(root)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]block.Disk{test.want}, got); diff != "" {
				t.Errorf("List (-want +got):\n%s", diff)
			}

			if diff := cmp.Diff(test.want, block.Read(root, test.want.Name)); diff != "" {
				t.Errorf("Read (-want +got):\n%s", diff)
			}
			if got, err := block.List(root, test.want.Kind); err != nil || got != nil {
				t.Errorf("List except this kind: %v %v", got, err)
			}
		})
	}
}

func TestListIsInTheOrderOfNames(t *testing.T) {
	root := fstest.MapFS{}
	for _, name := range []string{"vdb", "nvme0n1", "loop0", "vda"} {
		root["sys/block/"+name+"/size"] = &fstest.MapFile{}
	}

	disks, err := block.List(root, block.Loop, block.ZRAM)
	if err != nil {
		t.Fatal(err)
	}

	var names []string
	for _, d := range disks {
		names = append(names, d.Name)
	}
	if want := []string{"nvme0n1", "vda", "vdb"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}

func TestListWithoutSysfs(t *testing.T) {
	if disks, err := block.List(fstest.MapFS{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v %v", disks, err)
	}
}
