package volume

import (
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// opened is a sparse disk that is open.
type opened struct{ *inMemory }

func (opened) Close() error { return nil }

func TestObserve(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	link := func(to string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte(to), Mode: fs.ModeSymlink}
	}

	root := fstest.MapFS{
		"proc/self/mountinfo": file("23 1 8:3 / /var rw - ext4 /dev/sda3 rw\n" +
			"24 1 8:3 /lib /opt rw - ext4 /dev/sda3 rw\n25 1 0:5 / /proc rw - proc proc rw\n"),
		"proc/swaps": file("Filename\tType\tSize\tUsed\tPriority\n" +
			"/dev/sda2 partition 1 0 -2\n/var/swap file 1 0 -3\n"),
		"sys/block/sda":          link("../devices/pci0/ata1/block/sda"),
		"sys/block/nvme0n1":      link("../devices/pci0/nvme/nvme0/nvme0n1"),
		"sys/block/sdb":          link("../devices/pci0/usb1/1-1/block/sdb"),
		"sys/block/loop0":        link("../devices/virtual/block/loop0"),
		"sys/block/sr0":          link("../devices/pci0/sr0"),
		"sys/block/mmcblk0boot0": link("../devices/pci0/mmcblk0boot0"),
		"sys/block/sdc":          link("../devices/pci0/block/sdc"),
		"sys/class/block/sda2":   link("../../devices/pci0/ata1/block/sda/sda2"),

		"sys/devices/pci0/ata1/block/sda/size":                     file("8388608\n"),
		"sys/devices/pci0/ata1/block/sda/dev":                      file("8:0\n"),
		"sys/devices/pci0/ata1/block/sda/queue/logical_block_size": file("512\n"),
		"sys/devices/pci0/ata1/block/sda/device/model":             file("FAST DISK       \n"),
		"sys/devices/pci0/ata1/block/sda/device/vpd_pg80": file(
			"\x00\x80\x00\x08   S1\x1b[2J",
		),
		"sys/devices/pci0/ata1/block/sda/device/wwid":                  file("naa.5000\n"),
		"sys/devices/pci0/ata1/block/sda/sda1/partition":               file("1\n"),
		"sys/devices/pci0/ata1/block/sda/sda1/holders/dm-0":            link("../../dm-0"),
		"sys/devices/pci0/ata1/block/sda/sda1/dev":                     file("8:1\n"),
		"sys/devices/pci0/ata1/block/sda/sda1/uevent":                  file("PARTN=1\nPARTNAME=esp\n"),
		"sys/devices/pci0/ata1/block/sda/sda2/partition":               file("2\n"),
		"sys/devices/pci0/ata1/block/sda/sda2/holders/dm-0":            link("../../dm-0"),
		"sys/devices/pci0/ata1/block/sda/sda2/dev":                     file("8:2\n"),
		"sys/devices/pci0/ata1/block/sda/sda3/partition":               file("3\n"),
		"sys/devices/pci0/ata1/block/sda/sda3/dev":                     file("8:3\n"),
		"sys/devices/pci0/nvme/nvme0/nvme0n1/size":                     file("16777216\n"),
		"sys/devices/pci0/nvme/nvme0/nvme0n1/queue/logical_block_size": file("4096\n"),
		"sys/devices/pci0/nvme/nvme0/nvme0n1/wwid":                     file("eui.0025\n"),
		"sys/devices/pci0/nvme/nvme0/nvme0n1/device/serial":            file("N1  \n"),
		"sys/devices/pci0/usb1/1-1/serial":                             file("U1\n"),
		"sys/devices/pci0/usb1/serial":                                 file("0000:00:14.0\n"),
		"sys/devices/pci0/usb1/1-1/block/sdb/size":                     file("2048\n"),
		"sys/devices/pci0/usb1/1-1/block/sdb/ro":                       file("1\n"),
		"sys/devices/pci0/block/sdc/size":                              file("4194304\n"),
		"sys/devices/virtual/block/loop0/size":                         file("2048\n"),
		"sys/devices/pci0/sr0/size":                                    file("2048\n"),
		"sys/devices/pci0/mmcblk0boot0/size":                           file("8192\n"),
		"dev/disk/by-path/pci-0000:03-nvme-1":                          link("../../nvme0n1"),
		"dev/disk/by-path/pci-0000:00-ata-1":                           link("../../sda"),
		"dev/disk/by-path/pci-0000:00-ata-1-p1":                        link("../../sda1"),
	}

	system := newSparse(4 * gib)
	system.write(512, []byte("EFI PART"))

	got, err := Observe(Machine{
		Root: root,
		Open: func(node string, exclusive bool) (Device, error) {
			switch {
			case (node == "/dev/sda" || node == "/dev/sdc") && exclusive:
				return nil, ErrBusy
			case node == "/dev/sda":
				return opened{system}, nil
			case node == "/dev/sdb":
				return nil, os.ErrPermission
			case node == "/dev/sdc":
				return opened{newSparse(2 * gib)}, nil
			}
			return opened{newSparse(8 * gib)}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}

	want := []Disk{
		{
			Device:     "/dev/nvme0n1",
			Size:       8 * gib,
			SectorSize: 4096,
			Serial:     "N1",
			WWID:       "eui.0025",
			Paths:      []string{"pci-0000:03-nvme-1"},
		},
		{
			Device:     "/dev/sda",
			Size:       4 * gib,
			SectorSize: 512,
			Serial:     "S1[2J",
			Model:      "FAST DISK",
			WWID:       "naa.5000",
			Paths:      []string{"pci-0000:00-ata-1"},
			Uses:       []string{"held by dm-0", "swap area", "mounted at /var", "mounted at /opt"},
			Content:    Content{Evidence: []Evidence{{"gpt", "", 512}}},
			Parts: []Part{
				{Device: "/dev/sda1", Label: "esp", Content: unread},
				{Device: "/dev/sda2", Content: unread},
				{Device: "/dev/sda3", Content: unread},
			},
		},
		{
			Device:    "/dev/sdb",
			Size:      mib,
			Serial:    "U1",
			Removable: true,
			ReadOnly:  true,
			Content:   unread,
		},
		{Device: "/dev/sdc", Size: 2 * gib, Uses: []string{"opened exclusively"}},
	}

	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Observe (-want +got):\n%s", diff)
	}
}

// TestADiskIsStillThere under its node, or another is.
func TestADiskIsStillThere(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(root fstest.MapFS, content *inMemory)
		want   string
	}{
		{"it is", func(fstest.MapFS, *inMemory) {}, ""},
		{"another serial number", func(root fstest.MapFS, _ *inMemory) {
			root["sys/block/sda/serial"].Data = []byte("S2\n")
		}, "it is another disk now"},
		{"another size", func(root fstest.MapFS, _ *inMemory) {
			root["sys/block/sda/size"].Data = []byte("4194305\n")
		}, "it is another disk now"},
		{"another content", func(_ fstest.MapFS, content *inMemory) {
			content.write(512, []byte("EFI PART"))
		}, "its content has changed"},
		{"it is gone", func(root fstest.MapFS, _ *inMemory) {
			delete(root, "sys/block/sda/size")
		}, "/dev/sda: no disk"},
	} {
		t.Run(test.name, func(t *testing.T) {
			content := newSparse(2 * gib)
			root := fstest.MapFS{
				"proc/self/mountinfo":  {},
				"proc/swaps":           {},
				"sys/block/sda/size":   {Data: []byte("4194304\n")},
				"sys/block/sda/serial": {Data: []byte("S1\n")},
			}

			taken := false // by another user
			m := Machine{
				Root: root,
				Open: func(_ string, exclusive bool) (Device, error) {
					if taken && exclusive {
						return nil, ErrBusy
					}
					return opened{content}, nil
				},
			}

			d, err := ObserveOne(m, "/dev/sda")
			if err != nil {
				t.Fatal(err)
			}

			taken = true
			test.change(root, content)

			if err := m.Still(d); (err == nil) != (test.want == "") ||
				(err != nil && !strings.Contains(err.Error(), test.want)) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

// unread is the content of a device without bytes, or that cannot be opened.
var unread = Content{Evidence: []Evidence{{Name: Unreadable}}}
