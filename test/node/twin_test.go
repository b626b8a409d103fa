package node

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/loam-os/loam/partitions/ext4"
)

// twins are the buses that a copy of the system is on, and the device that the
// kernel makes of it: each sorts before the node's disk, which is the last on
// PCI.
var twins = []struct{ device, name string }{
	{"virtio-blk-pci,addr=0x10,drive=%s", "vda"},
	{"nvme,addr=0x11,serial=twin,drive=%s", "nvme0n1"},
	{"ahci,addr=0x12,id=twins -device ide-hd,bus=twins.0,drive=%s", "sda"},
	{"sdhci-pci,addr=0x13 -device sd-card,drive=%s", "mmcblk0"},
}

// last attaches the node's disk as the last on PCI.
func (m *machine) last() {
	m.arguments(
		"-drive", "if=none,id=disk,format=qcow2,cache=unsafe,file="+m.config.Disk,
		"-device", "virtio-blk-pci,addr=0x1e,drive=disk,bootindex=1",
	)
	m.config.Disk = ""
}

// twin attaches a disk.
func (m *machine) twin(device, id, format, file string) {
	m.arguments("-drive", fmt.Sprintf("if=none,id=%s,format=%s,cache=unsafe,file=%s",
		id, format, file))
	for i, word := range strings.Fields("-device " + fmt.Sprintf(device, id)) {
		if i%2 == 1 {
			m.arguments("-device", word)
		}
	}
}

// TestATwinNeverBoots has a node with a disk on each bus that has the same
// system, and a name that sorts before the node's own disk.
func TestATwinNeverBoots(t *testing.T) {
	matrix(t)
	b := open(t)
	if b.manifest.Arch != "amd64" {
		t.Skip("the machine for arm64 has no such buses")
	}

	m := b.flash(t, b.file(".raw"))
	disk := m.config.Disk
	credentials := map[string]string{"loam.machine": machineYAML(b.manifest.Arch, "")}
	image := imageGUIDs(t, b)

	// The first boot of the image gives the disk its own UUIDs.
	n := m.on(t, credentials)
	n.shell()
	n.sh("touch /var/lib/ours; sync")
	first := n.sh(fmt.Sprintf(guidsOf, "vda"))
	for _, guid := range []string{image[:32], image[32:]} {
		if strings.Contains(first, guid) || len(first) != 64 {
			t.Errorf("UUIDs %s: the image has %s", first, guid)
		}
	}
	n.off()

	t.Run("copies of the image", func(t *testing.T) {
		m.last()
		for i, twin := range twins {
			id := fmt.Sprintf("twin%d", i)
			file := filepath.Join(m.config.Dir, id+".qcow2")
			m.tool("qemu-img", "create", "-q", "-f", "qcow2", "-b", b.file(".raw"), "-F", "raw",
				file, "4G")
			m.twin(twin.device, id, "qcow2", file)
		}

		n := m.on(t, credentials)
		n.shell()
		n.want(`sed -n 's/.*"state":"\([^"]*\)".*/\1/p' /run/loam/boot.json; echo; ls /var/lib/ours`,
			"/dev/vdb8\n/var/lib/ours")
		n.want("findmnt -no SOURCE /var", "/dev/vdb8")
		if now := n.sh(fmt.Sprintf(guidsOf, "vdb")); now != first {
			t.Errorf("the node's UUIDs change:\n%s\n%s", first, now)
		}

		names := n.sh("ls /sys/block")
		for _, twin := range twins {
			if b.manifest.Profile == "cloud" && twin.name == "mmcblk0" {
				continue // The cloud kernel has no driver.
			}
			if !strings.Contains(names, twin.name) {
				t.Errorf("no %s among the disks: %s", twin.name, names)
			}
		}
		n.want("head -c 1M /dev/vda8 | tr -d '\\0' | wc -c", strconv.Itoa(len(ext4.FormatMark)))
		n.off()
	})

	exact := filepath.Join(m.config.Dir, "exact.qcow2")
	text, err := os.ReadFile(disk)
	if err == nil {
		err = os.WriteFile(exact, text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}

	t.Run("an exact copy, and the firmware knows", func(t *testing.T) {
		m.config.Arguments = nil
		m.config.Disk = disk
		m.last()
		m.twin(twins[0].device, "twin", "qcow2", exact)

		n := m.on(t, credentials)
		n.shell()
		n.want("findmnt -no SOURCE /var", "/dev/vdb8")
		n.sh("loam status | tr -s ' \\n' ' ' | grep 'ignored the copy of the system on /dev/vda:'")
		n.off()
	})

	t.Run("an exact copy, and no firmware", func(t *testing.T) {
		m.config.NoReboot = true
		m.direct()
		n := m.on(t, nil)
		n.expect(regexp.MustCompile("/dev/vda and /dev/vdb carry the same system"))
	})
}
