package node

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/status"
)

// matrix is onlyInPlaces and parallel.
func matrix(t *testing.T) {
	t.Helper()
	onlyInPlaces(t)
	parallel(t, 3*time.Minute)
}

// onlyInPlaces skips what only `make test-places` runs.
func onlyInPlaces(t *testing.T) {
	t.Helper()
	if os.Getenv("LOAM_PLACES") == "" {
		t.Skip("takes minutes: make test-places runs it")
	}
}

// file puts a file into the machine's directory and returns its path.
func (m *machine) file(name, text string) string {
	m.t.Helper()
	path := filepath.Join(m.config.Dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}

	return path
}

func (m *machine) arguments(args ...string) {
	m.config.Arguments = append(m.config.Arguments, args...)
}

// cidata makes a drive as virt-install and Proxmox do for cloud-init, and
// returns what QEMU calls it.
func (m *machine) cidata(userData, metaData string) (drive string) {
	m.file("seed/user-data", userData)
	m.file("seed/meta-data", metaData)
	iso := filepath.Join(m.config.Dir, "seed.iso")
	m.tool("xorriso", "-as", "mkisofs", "-quiet", "-rational-rock", "-joliet", "-volid", "cidata",
		"-o", iso, filepath.Join(m.config.Dir, "seed"))
	m.arguments("-drive", "if=none,id=seed,format=raw,readonly=on,file="+iso)

	return "seed"
}

// cdrom puts a drive into a CD-ROM drive. Its driver is not in the initramfs:
// it appears while the node starts.
func (m *machine) cdrom(drive string) {
	m.arguments("-device", "virtio-scsi-pci,id=cd", "-device", "scsi-cd,bus=cd.0,drive="+drive)
}

// fat adds a FAT file system of that label, on a disk without a partition
// table.
func (m *machine) fat(label, name, text string) (drive string) {
	image := m.file(label+".img", "")
	m.tool("mkfs.fat", "-C", image+".fat", "-n", label, "4096")
	m.tool("mcopy", "-i", image+".fat", m.file(label+"/"+name, text), "::"+name)
	m.arguments("-drive", "if=none,id="+label+",format=raw,readonly=on,file="+image+".fat")
	return label
}

// TestMachineYAMLFromTheHypervisor hands machine.yaml over in every way that
// docs/install.md names.
func TestMachineYAMLFromTheHypervisor(t *testing.T) {
	onlyInPlaces(t)
	b := open(t)
	yaml := machineYAML(b.manifest.Arch, "")
	nameless := strings.Replace(yaml, "hostname: hello\n", "", 1)
	for _, place := range []struct {
		name     string
		give     func(m *machine)
		machine  string // what the status calls the place
		hostname string
	}{
		{
			"QEMU's fw_cfg",
			func(m *machine) {
				m.arguments("-fw_cfg", "name=opt/loam/machine.yaml,file="+m.file("machine.yaml", yaml))
			},
			"fw_cfg opt/loam/machine.yaml",
			"hello",
		},
		{
			"a credential in QEMU's fw_cfg",
			func(m *machine) {
				m.arguments("-fw_cfg",
					"name=opt/io.systemd.credentials/loam.machine,file="+m.file("machine.yaml", yaml))
			},
			"credential loam.machine",
			"hello",
		},
		{
			"user-data of a CD-ROM",
			func(m *machine) {
				m.cdrom(m.cidata("#loam\n"+nameless, "instance-id: i-1\nlocal-hostname: Seed-1\n"))
			},
			"user-data of drive /dev/sr0 (cidata)",
			"seed-1",
		},
		{
			"user-data of a disk",
			func(m *machine) {
				m.arguments("-device",
					"virtio-blk-pci,drive="+m.cidata(yaml, "local-hostname: other\n"))
			},
			"user-data of drive /dev/vdb (cidata)",
			"hello",
		},
		{
			"machine.yaml on a disk with FAT",
			func(m *machine) {
				m.arguments("-device", "virtio-blk-pci,drive="+m.fat("LOAM", "machine.yaml", yaml))
			},
			"machine.yaml of drive /dev/vdb (LOAM)",
			"hello",
		},
		{
			"machine.yaml in a directory of the host",
			func(m *machine) {
				dir := filepath.Dir(m.file("shared/machine.yaml", yaml))
				m.arguments("-blockdev",
					"driver=vvfat,node-name=shared,label=LOAM,read-only=on,dir="+
						dir, "-device", "virtio-blk-pci,drive=shared")
			},
			"machine.yaml of drive /dev/vdb1 (LOAM)",
			"hello",
		},
	} {
		t.Run(place.name, func(t *testing.T) {
			parallel(t, 2*time.Minute)
			m := b.flash(t, b.file(".raw"))
			place.give(m)
			n := m.on(t, nil)
			n.shell()

			n.says(func(s status.Status) bool {
				return s.Machine == place.machine && s.Hostname == place.hostname
			})

			n.off()
		})
	}
}

// TestDrivesForTheNode has a node without machine.yaml find drives that are
// unusable, or too many; the console says so.
func TestDrivesForTheNode(t *testing.T) {
	matrix(t)
	b := open(t)
	yaml := machineYAML(b.manifest.Arch, "")

	for _, test := range []struct {
		name string
		give func(m *machine)
		want string
	}{
		{"two drives", func(m *machine) {
			m.arguments("-device", "virtio-blk-pci,drive="+m.fat("LOAM", "machine.yaml", yaml))
			m.arguments("-device", "virtio-blk-pci,drive="+m.cidata(yaml, ""))
		}, `machine.yaml may be on any of drive /dev/\w+ \(\w+\), drive`},
		{"a drive that is for cloud-init", func(m *machine) {
			m.cdrom(m.cidata("#cloud-config\n", ""))
		}, `begins with "#cloud-config"`},
		{"a drive without anything", func(m *machine) {
			m.arguments("-device", "virtio-blk-pci,drive="+m.fat("CIDATA", "other", ""))
		}, `neither machine.yaml nor user-data`},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := b.flash(t, b.file(".raw"))
			test.give(m)
			n := m.on(t, nil)
			n.expect(regexp.MustCompile(test.want))
		})
	}
}
