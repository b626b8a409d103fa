package drive

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// TestVolumesOfPodsAreNoDrives has pods with volumes from anywhere, and disks that
// may be drives.
func TestVolumesOfPodsAreNoDrives(t *testing.T) {
	const (
		pci    = "pci0000:00/0000:00:05.0/"
		fabric = "virtual/nvme-fabrics/ctl/nvme1/"
		multi  = "virtual/nvme-subsystem/nvme-subsys2/"
	)
	root := fstest.MapFS{
		"proc/self/mountinfo": {Data: []byte(
			"30 1 254:0 / / rw - ext4 /dev/vda rw\n" +
				"31 30 0:6 / /dev rw - devtmpfs devtmpfs rw\n" +
				"40 30 0:6 /vdc /var/lib/kubelet/plugins/kubernetes.io/csi/volumeDevices/" +
				"publish/pv-1/uid rw - devtmpfs devtmpfs rw\n" +
				"41 30 8:17 / /var/lib/kubelet/plugins/kubernetes.io/csi/d/1/globalmount rw " +
				"- ext4 /dev/sdb1 rw\n" +
				"42 30 254:48 / /mnt rw - vfat /dev/vdd rw\n",
		)},
		"sys/devices/" + pci + "nvme/nvme0/transport":  {Data: []byte("pcie\n")},
		"sys/devices/" + fabric + "transport":          {Data: []byte("tcp\n")},
		"sys/devices/" + multi + "nvme2/transport":     {Data: []byte("rdma\n")},
		"sys/devices/" + pci + "sdb/sdb1/dev":          {Data: []byte("8:17\n")},
		"sys/devices/" + pci + "virtio2/block/vdc/dev": {Data: []byte("254:32\n")},
		"sys/devices/" + pci + "virtio3/block/vdd/dev": {Data: []byte("254:48\n")},
	}
	for name, device := range map[string]string{
		"vda":     pci + "virtio1/block/vda",
		"vdc":     pci + "virtio2/block/vdc",
		"vdd":     pci + "virtio3/block/vdd",
		"sda":     pci + "ata1/host0/target0:0:0/0:0:0:0/block/sda",
		"sdb":     pci + "sdb",
		"sdc":     "platform/host3/session1/target3:0:0/3:0:0:0/block/sdc",
		"sdd":     pci + "host5/rport-5:0-1/target5:0:0/5:0:0:0/block/sdd",
		"sr0":     pci + "ata2/host1/target1:0:0/1:0:0:0/block/sr0",
		"nvme0n1": pci + "nvme/nvme0/nvme0n1",
		"nvme1n1": fabric + "nvme1n1",
		"nvme2n1": multi + "nvme2n1",
		"rbd0":    "rbd/0/block/rbd0",
		"drbd0":   "virtual/block/drbd0",
		"nbd0":    "virtual/block/nbd0",
		"zd0":     "virtual/block/zd0",
	} {
		root["sys/block/"+name] = &fstest.MapFile{
			Data: []byte("../devices/" + device),
			Mode: fs.ModeSymlink,
		}
		root["sys/devices/"+device+"/size"] = &fstest.MapFile{Data: []byte("8192\n")}
	}

	disks, err := candidates(root)
	if err != nil {
		t.Fatal(err)
	}

	var got []string
	for _, d := range disks {
		got = append(got, d.Name)
	}
	want := []string{"nvme0n1", "sda", "sr0", "vda", "vdd"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A bad sector in one partition does not hide the drive in another.
func TestAPartitionThatCannotBeReadHidesNoDrive(t *testing.T) {
	dir := t.TempDir()
	iso := make([]byte, 64<<10) // ISO 9660 (ECMA-119, 8.4), a volume descriptor in sector 16
	copy(iso[16*2048:], "\x01CD001\x01")
	copy(iso[16*2048+40:], "LOAM                            ")
	labelled := filepath.Join(dir, "vda2")
	if err := os.WriteFile(labelled, iso, 0o600); err != nil {
		t.Fatal(err)
	}

	unreadable := dir // read(2) of a directory fails
	found, unread := among(map[int]string{1: unreadable, 2: labelled, 3: unreadable}, []string{"loam"})
	if len(found) != 1 || found[0].Device != labelled {
		t.Errorf("found %v, want %s", found, labelled)
	}
	if unread == nil {
		t.Error("nothing says that the others could not be read")
	}
}
