package node

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/test/judge"
)

// dataDisk is one of SCSI, which a running machine can lose and get.
type dataDisk struct {
	id     string
	size   int64
	sector int
}

// arguments of QEMU for a controller and disks, which are files in dir.
func dataDisks(dir string, disks ...dataDisk) []string {
	args := []string{"-device", "virtio-scsi-pci,id=scsi"}
	for _, d := range disks {
		args = append(args, "-blockdev",
			fmt.Sprintf("driver=raw,node-name=%s,file.driver=file,file.filename=%s",
				d.id, filepath.Join(dir, d.id)))
		if d.sector != 0 {
			args = append(args, "-device",
				fmt.Sprintf(
					"scsi-hd,bus=scsi.0,id=disk-%s,drive=%[1]s,serial=S-%[1]s,logical_block_size=%d,physical_block_size=%[2]d",
					d.id, d.sector,
				))
		}
	}

	return args
}

func sum(t *testing.T, name string) string {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()

	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		t.Fatal(err)
	}

	return fmt.Sprintf("%x", h.Sum(nil))
}

// kubelet stands for the real one: a service of that name that says whether its
// volume is there.
const kubelet = `apiVersion: extensions.gardener.cloud/v1alpha1
kind: OperatingSystemConfig
metadata: {name: volume}
spec:
  type: loam
  purpose: reconcile
  units:
  - name: kubelet.service
    enable: true
    command: start
    content: |
      [Unit]
      Description=stands for the kubelet
      [Service]
      ExecStartPre=/bin/bash -c '{ findmnt -no FSTYPE,OPTIONS /var/lib/kubelet || echo none; } >>/var/lib/kubelet/starts'
      ExecStart=/bin/sleep infinity
      [Install]
      WantedBy=multi-user.target
  files:
  - path: /var/lib/kubelet/config/kubelet
    permissions: 384
    content: {inline: {data: "kind: KubeletConfiguration\n"}}
`

// TestADataVolume on a machine with several disks: the node formats the claimed
// disk, and writes to no other; the volume grows; without it the machine is up,
// says so, and the kubelet waits.
func TestADataVolume(t *testing.T) {
	judge.Long(t, "agent/volume")
	parallel(t, 3*time.Minute)
	b := open(t)
	m := b.flash(t, b.file(".raw"))
	dir := m.config.Dir
	disks := []dataDisk{{"old", 2 << 30, 512}, {"data", 2 << 30, 4096}, {"large", 6 << 30, 512}}
	for _, d := range disks {
		err := errors.Join(os.WriteFile(filepath.Join(dir, d.id), nil, 0o600),
			os.Truncate(filepath.Join(dir, d.id), d.size))
		if err != nil {
			t.Fatal(err)
		}
	}

	old, err := os.OpenFile(filepath.Join(dir, "old"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}

	noise := bytes.Repeat([]byte{0xa5}, 4096)

	// Nothing at its ends, and no signature: only that other disks are empty
	// saves it from a claim of its size.
	_, err = old.WriteAt(noise, 1<<30)
	_, err2 := old.WriteAt([]byte("LABELONE\x01\x00\x00\x00\x00\x00\x00\x00"), 512)
	if err := errors.Join(err, err2, old.Close()); err != nil {
		t.Fatal(err)
	}

	before := map[string]string{
		"old":   sum(t, filepath.Join(dir, "old")),
		"large": sum(t, filepath.Join(dir, "large")),
	}

	claim := machineYAML(b.manifest.Arch, "source: {credential: {name: loam.config}}\n"+
		"dataVolume: {minSize: 1Gi, maxSize: 3Gi, onlyEmpty: true}\n")
	given := map[string]string{"loam.machine": claim, "loam.config": kubelet}
	m.config.Arguments = dataDisks(dir, disks...)

	n := m.on(t, given)
	n.applied()
	n.shell()

	v := n.status().Volume
	if v == nil || v.FileSystem != "ext4" || v.Size != 2<<30 || v.Problem != "" {
		t.Fatalf("volume %+v", v)
	}

	n.want("findmnt -no FSTYPE,OPTIONS /var/lib/kubelet | tr -s ' '", "ext4 rw,noatime,prjquota")
	n.want("lsblk -no SERIAL $(findmnt -no SOURCE /var/lib/kubelet)", "S-data")
	n.want("tr -s ' ' </var/lib/kubelet/starts; cat /var/lib/kubelet/config/kubelet",
		"ext4 rw,noatime,prjquota\nkind: KubeletConfiguration")
	n.want("loam disks | grep -c 'serial S-old.*LVM physical volume'", "1")
	n.off()

	for id, want := range before {
		if got := sum(t, filepath.Join(dir, id)); got != want {
			t.Errorf("disk %s was written to", id)
		}
	}

	// The machine starts without the disk, and gets it later: larger.
	if err := os.Truncate(filepath.Join(dir, "data"), 4<<30); err != nil {
		t.Fatal(err)
	}

	absent := disks[1]
	absent.sector = 0
	m.config.Arguments = dataDisks(dir, disks[0], absent, disks[2])
	units := "systemctl is-active kubelet.service loam-data-volume.service 2>&1; true"
	n = m.on(t, given)
	n.shell()

	n.says(func(s status.Status) bool {
		return s.Phase == status.Failed && s.Error != nil &&
			strings.Contains(s.Error.Problem, "the data volume that the node had is not there")
	})

	n.want(units, "inactive\nactivating")
	device := map[string]any{
		"driver":              "scsi-hd",
		"bus":                 "scsi.0",
		"id":                  "disk-data",
		"drive":               "data",
		"serial":              "S-data",
		"logical_block_size":  4096,
		"physical_block_size": 4096,
	}
	if err := n.Command("device_add", device); err != nil {
		t.Fatal(err)
	}

	n.says(func(s status.Status) bool {
		return s.Phase == status.Applied && s.Volume != nil && s.Volume.Size == 4<<30 &&
			s.Volume.Problem == "" && len(s.Volume.Warnings) == 0
	})

	n.want(units, "active\nactive")
	n.want("wc -l </var/lib/kubelet/starts; test $(df --output=size -k /var/lib/kubelet | tail "+
		"-1) -gt 3800000 && echo grown", "2\ngrown")

	if err := n.Command("device_del", map[string]any{"id": "disk-data"}); err != nil {
		t.Fatal(err)
	}

	n.says(func(s status.Status) bool {
		return s.Phase == status.Failed && s.Error != nil &&
			strings.Contains(s.Error.Problem, "the disk of the data volume") && s.Volume.Size == 0
	})

	if err := n.Kill(); err != nil {
		t.Fatal(err)
	}
}

// TestADataVolumeForANodeThatHadNone: it has to wait for a restart, as the
// kubelet runs; then what that has kept is on the volume.
func TestADataVolumeForANodeThatHadNone(t *testing.T) {
	matrix(t)
	b := open(t)
	m := b.flash(t, b.file(".raw"))
	dir := m.config.Dir
	disk := dataDisk{"data", 2 << 30, 512}
	err := errors.Join(os.WriteFile(filepath.Join(dir, disk.id), nil, 0o600),
		os.Truncate(filepath.Join(dir, disk.id), disk.size))
	if err != nil {
		t.Fatal(err)
	}

	m.config.Arguments = dataDisks(dir, disk)
	source := machineYAML(b.manifest.Arch, "source: {credential: {name: loam.config}}\n")
	claimed := source + "dataVolume: {serial: S-data, fileSystem: xfs}\n"
	n := m.on(t, map[string]string{"loam.machine": source, "loam.config": kubelet})
	n.applied()
	n.shell()

	if v := n.status().Volume; v != nil {
		t.Errorf("volume %+v", v)
	}

	n.sh("mkdir -p /var/lib/kubelet/pki; echo secret >/var/lib/kubelet/pki/key; " +
		"chmod 400 /var/lib/kubelet/pki/key; ln -s key /var/lib/kubelet/pki/current; sync")
	n.off()

	n = m.on(t, map[string]string{"loam.machine": claimed, "loam.config": kubelet})
	n.shell()

	n.says(func(s status.Status) bool {
		return s.Volume != nil &&
			(s.Volume.FileSystem == "xfs" ||
				strings.Contains(s.Volume.Problem, "when the machine restarts"))
	})

	n.want("systemctl restart kubelet.service; systemctl is-active kubelet.service", "active")
	n.off()

	n = m.on(t, map[string]string{"loam.machine": claimed, "loam.config": kubelet})
	n.applied()
	n.shell()

	if v := n.status().Volume; v == nil || v.FileSystem != "xfs" || v.Problem != "" {
		t.Errorf("volume %+v", v)
	}

	n.want("findmnt -no FSTYPE,OPTIONS /var/lib/kubelet | tr -s ' ' | grep -c '^xfs "+
		"rw,noatime.*prjquota'", "1")
	n.want("cat /var/lib/kubelet/pki/current; stat -c %a /var/lib/kubelet/pki/key; "+
		"ls -A1 /var/lib/kubelet", "secret\n400\nconfig\npki\nstarts")
	n.want("systemctl is-active kubelet.service", "active")
	n.sh("mkdir /run/below && mount --bind /var/lib /run/below && test -z \"$(ls -A " +
		"/run/below/kubelet)\"")
	n.off()
}
