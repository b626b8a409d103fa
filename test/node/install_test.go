package node

import (
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/firmware/loader"
	system "github.com/loam-os/loam/image/esp"
	"github.com/loam-os/loam/partitions/sparse"
	"github.com/loam-os/loam/test/vm"
)

// target is the serial number of the disk that is installed on, targetPath its
// name in /dev/disk/by-path.
const (
	target     = "TARGET1"
	targetPath = "pci-0000:00:1d.0"
)

var (
	installing = regexp.MustCompile(`loam: installing on /dev/vda, 8192 MiB, serial ` + target)
	hasSystem  = regexp.MustCompile(`loam: /dev/vda, 8192 MiB, serial ` + target +
		` has the system`)
	onDisk   = regexp.MustCompile(`slot a, root [0-9a-f]+ verified`)
	inMemory = regexp.MustCompile(`slot memory, root [0-9a-f]+ verified`)
)

// installs is a machine.yaml that claims the disk.
func installs(arch, more string) string {
	return machineYAML(arch, "install: {disk: {serial: "+target+"}"+more+"}\n")
}

// disk gives a machine a disk of 8 GiB that begins with content.
func (m *machine) disk(content string) (file string) {
	m.t.Helper()
	file = filepath.Join(m.config.Dir, "target.raw")
	err := errors.Join(os.WriteFile(file, []byte(content), 0o644), os.Truncate(file, 8<<30))
	if err != nil {
		m.t.Fatal(err)
	}

	m.arguments("-drive", "if=none,id=target,format=raw,cache=unsafe,discard=unmap,file="+file,
		"-device", "virtio-blk-pci,addr=0x1d,drive=target,serial="+target)
	return file
}

// usbDrive gives a machine a drive on a USB port, and no disk, and returns its
// file. The kernel of the profile cloud, which has no USB, finds it where a
// hypervisor would have it. It has no bootindex, for which OVMF would drop what
// the system has entered in the firmware's menu (PruneBootVariables of its
// QemuBootOrderLib).
func (m *machine) usbDrive() (file string) {
	file = filepath.Join(m.config.Dir, "usb.raw")
	m.config.Disk = ""
	m.config.Settings = map[string]string{"IPv4PXESupport": "no", "IPv6Support": "no"}
	m.arguments("-drive", "if=none,id=usb,format=raw,cache=unsafe,file="+file)

	if m.build.manifest.Profile == "cloud" {
		m.arguments("-device", "virtio-blk-pci,drive=usb,addr=0x1e") // after the target
	} else {
		m.arguments("-device", "qemu-xhci,id=bus", "-device", "usb-storage,bus=bus.0,drive=usb")
	}

	return file
}

// loaded is a machine whose firmware starts the UKI of the PXE set from a
// drive, as if it had loaded it over the network; the system is at p.
func (b build) loaded(t *testing.T, p *origin) *machine {
	t.Helper()
	m := b.flash(t, b.file(".raw"))
	m.config.MemoryMB = liveMemory
	m.config.Host = true
	m.config.BootFile = p.url()
	const size = 600 << 20

	f, err := os.Create(m.usbDrive())
	if err != nil {
		t.Fatal(err)
	}

	err = errors.Join(f.Truncate(size),
		system.Write(f, size, 512, 1,
			[]system.File{
				{Path: loader.Path(b.manifest.Arch), Data: readFile(t, b.file(".pxe.efi"))},
			}), f.Close())
	if err != nil {
		t.Fatal(err)
	}

	return m
}

// installed waits until the machine has restarted into its disk, and looks
// around.
func (n *node) installed(b build) {
	n.t.Helper()
	n.expect(hasSystem)
	n.expect(onDisk)
	n.shell()
	n.sh("until test -e /run/loam/status.json; do sleep 0.2; done")

	s := n.status()
	if s.Hostname != "hello" || s.RootHash != b.manifest.RootHash || s.Phase == status.Failed ||
		s.Machine != "ESP file /loam/machine.yaml" {
		n.t.Errorf("status %+v", s)
	}

	n.want("findmnt -no FSTYPE,SOURCE /var | tr -s ' '; systemctl --failed --no-legend | wc -l",
		"ext4 /dev/vda8\n0")
}

// TestPXEToDisk: a node that is loaded over the network installs itself,
// although the power is cut while it writes, restarts into its disk, and is
// never written again.
func TestPXEToDisk(t *testing.T) {
	matrix(t)
	b := open(t)
	p := b.origin(t, installs(b.manifest.Arch, ""))
	m := b.loaded(t, p)
	m.disk("")
	n := m.on(t, nil)
	n.expect(installing)
	n.expect(regexp.MustCompile(`write: 25 %`))

	if err := n.Reset(); err != nil {
		t.Fatal(err)
	}

	n.expect(installing)
	n.expect(regexp.MustCompile(`verify: 100 %`))
	n.installed(b)

	if query := <-p.installed; !strings.Contains(query, "mac=52%3A54%3A00%3A12%3A34%3A56") {
		t.Errorf("the server was told %q", query)
	}

	n.sh("echo kept >/var/kept; sync")
	_, _ = n.Shell().Write([]byte("systemctl reboot\n"))
	n.expect(onDisk) // By this time the firmware lists it before the drive.
	n.shell()
	n.want("cat /var/kept", "kept")

	starts := slices.DeleteFunc(n.Console().Lines(), func(l vm.Line) bool {
		return !installing.MatchString(l.Text)
	})
	if len(starts) != 2 {
		t.Errorf("installed %d times, want 2, of which one was cut off", len(starts))
	}

	n.off()
}

// TestADiskWithContentIsNotInstalledOn: the node says why, and runs from
// memory. A server cannot overwrite it.
func TestADiskWithContentIsNotInstalledOn(t *testing.T) {
	matrix(t)
	b := open(t)
	p := b.origin(t, installs(b.manifest.Arch, ""))
	m := b.loaded(t, p)
	file := m.disk(strings.Repeat("thesis", 1000))
	before := sumOf(t, file)
	n := m.on(t, nil)
	n.expect(
		regexp.MustCompile(
			`the system was not installed: no disk for install.disk: no disk that matches is empty`,
		),
	)

	n.expect(regexp.MustCompile(`unknown bytes at byte 0`))
	n.expect(regexp.MustCompile(`install: {disk: {serial: "TARGET1"}, wipe: "TARGET1"}`))
	n.expect(inMemory)
	n.shell()
	n.sh("until test -e /run/loam/status.json; do sleep 0.2; done")

	s := n.status()
	if len(s.Warnings) == 0 || !strings.Contains(s.Warnings[0], "unknown bytes at byte 0") ||
		s.Slot != "memory" {
		t.Errorf("status %+v", s)
	}

	n.off()
	if sumOf(t, file) != before {
		t.Fatal("the disk was written to")
	}

	p.machine = installs(b.manifest.Arch, ", wipe: "+target)
	n = m.on(t, nil)
	n.expect(regexp.MustCompile(`machine.yaml from http://\S+ is not authenticated`))
	n.expect(regexp.MustCompile(`the system was not installed: wipe-not-authenticated: `))
	n.expect(inMemory)
	n.shell()
	n.off()
	if sumOf(t, file) != before {
		t.Error("the disk was written to")
	}
}

// TestUSBInstaller: the USB installer, with an edited machine.yaml, installs a
// machine without a network, and is then no longer needed.
func TestUSBInstaller(t *testing.T) {
	parallel(t, 4*time.Minute)
	b := open(t)
	m := b.flash(t, b.file(".raw"))
	m.config.MemoryMB = liveMemory
	m.disk("")
	without := m.config.Arguments
	file := m.usbDrive()
	m.tool("cp", "--sparse=always", b.file(".usb.raw"), file)

	edited := filepath.Join(m.config.Dir, "machine.yaml")
	if err := os.WriteFile(edited, []byte(installs(b.manifest.Arch, "")), 0o644); err != nil {
		t.Fatal(err)
	}

	m.tool("mcopy", "-o", "-i", file+"@@1M", edited, "::/loam/machine.yaml")
	sum := sumOf(t, file)
	n := m.on(t, nil)
	n.expect(installing)
	n.expect(regexp.MustCompile(`remove the USB installer`))
	n.next = 0
	n.installed(b)
	n.off()

	if sumOf(t, file) != sum {
		t.Error("the USB installer was written to")
	}

	m.config.Arguments = without // The USB installer is out.
	n = m.on(t, nil)
	n.expect(onDisk)
	n.shell()
	n.off()
}

// TestStateOfANodeInMemory is on the disk that is claimed for it, and there
// after a restart.
func TestStateOfANodeInMemory(t *testing.T) {
	matrix(t)
	b := open(t)
	p := b.origin(t, machineYAML(b.manifest.Arch, "state: {disk: {path: \""+targetPath+"\"}}\n"))
	m := b.diskless(t, p)
	m.disk("")

	for _, kept := range []string{"none", "kept"} {
		n := m.on(t, nil)
		n.expect(inMemory)
		n.shell()
		n.want("findmnt -no FSTYPE,SOURCE /var | tr -s ' '; cat /var/kept 2>/dev/null || echo none",
			"ext4 /dev/vda\n"+kept)
		n.sh("echo kept >/var/kept; sync")
		n.off()
	}
}

func sumOf(t *testing.T, file string) (sum [32]byte) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()

	h := sha256.New()
	size, err := f.Seek(0, io.SeekEnd)
	if err := errors.Join(err, sparse.Copy(h, f, size)); err != nil {
		t.Fatal(err)
	}

	return [32]byte(h.Sum(nil))
}
