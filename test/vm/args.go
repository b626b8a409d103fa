package vm

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
)

// Config is a machine to be. Paths are of this host.
type Config struct {
	Arch string // amd64 or arm64

	// Accel is "kvm" or "tcg" (see Accelerator).
	Accel string

	// CPU is QEMU's model, "" is the best that Accel has.
	CPU      string
	CPUs     int
	MemoryMB int

	// Disk is a qcow2 or raw file, by its suffix; the machine writes to it.
	Disk string

	// Bus is what Disk hangs on, see buses; "" is virtio-blk.
	Bus string

	// Log is a new file that gets all that is written to Disk (QEMU's
	// blklogwrites), "" if none.
	Log string

	// SectorSize is the disk's, 512 or 4096 bytes; 0 is 512.
	SectorSize int

	// FirmwareCode is read only, FirmwareVars is written. Empty: no firmware,
	// Kernel is started directly.
	FirmwareCode, FirmwareVars string

	// SecureBoot gives FirmwareCode what it needs to keep its variables from
	// the system; amd64 only.
	SecureBoot bool

	// ReadOnlyVars has the firmware forget what it writes.
	ReadOnlyVars bool

	// Kernel, Initrd and Cmdline start a kernel without firmware; with it,
	// Kernel alone is a program that it starts.
	Kernel, Initrd, Cmdline string

	// Credentials are handed over as SMBIOS OEM strings
	// (systemd.system-credentials(7)).
	Credentials map[string]string

	// Screen adds a display, for Screendump.
	Screen bool

	// Clock is what the machine's own clock says at power on, "1970-01-01"; ""
	// is the time.
	Clock string

	// TPM is a directory that has the state of a TPM 2.0; "" runs without a
	// TPM.
	TPM string

	// NoReboot ends the machine where it would restart.
	NoReboot bool

	// Host lets the machine reach this host's loopback, as 10.0.2.2, and what
	// else this host reaches. Without it, its network ends at a DHCP server.
	Host bool

	// NIC is QEMU's name of the network device, "" for virtio-net-pci.
	NIC string

	// Netdev is a -netdev with id net, instead of a network of QEMU's own. The
	// firmware boots from it first.
	Netdev string

	// Settings are of EDK2's firmware, such as IPv6Support=no
	// (RUNTIME_CONFIG.md in its OvmfPkg).
	Settings map[string]string

	// BootFile is what the DHCP server says in its field of that name, "" for
	// nothing.
	BootFile string

	// Forward are ports of this host's loopback that lead to TCP ports of the
	// machine.
	Forward map[int]int

	// Arguments are more of QEMU's, for further devices.
	Arguments []string

	// Dir is for sockets and logs; its path must be short (unix(7): 108 bytes).
	Dir string
}

// Files in Config.Dir.
const (
	consoleSocket = "console"
	shellSocket   = "shell"
	qmpSocket     = "qmp"
	// ConsoleLog has all that the machine wrote to its first serial port.
	ConsoleLog = "console.log"
)

// program is QEMU's name for the architecture.
func program(arch string) string {
	if arch == "arm64" {
		return "qemu-system-aarch64"
	}
	return "qemu-system-x86_64"
}

// arguments of QEMU. Few devices: each costs the guest time to probe.
func (c Config) arguments() []string {
	args := []string{
		"-nodefaults", "-no-user-config", "-display", "none",
		"-name", "loam", "-smp", strconv.Itoa(c.CPUs), "-m", strconv.Itoa(c.MemoryMB),
	}

	args = append(args, c.machine()...)
	args = append(args, c.boot()...)
	args = append(args, c.storage()...)
	for _, s := range []string{consoleSocket, shellSocket, qmpSocket} {
		args = append(args, "-chardev", "socket,id="+s+",path="+filepath.Join(c.Dir, s))
	}

	args = append(args,
		"-serial", "chardev:"+consoleSocket, "-serial", "chardev:"+shellSocket,
		"-mon", "chardev="+qmpSocket+",mode=control",
		"-netdev", c.network(), "-device", c.networkDevice(),
		"-device", "virtio-rng-pci",
	)

	for _, name := range slices.Sorted(maps.Keys(c.Settings)) {
		args = append(args, "-fw_cfg", "name=opt/org.tianocore/"+name+",string="+c.Settings[name])
	}

	if c.Clock != "" {
		args = append(args, "-rtc", "base="+c.Clock)
	}

	if c.TPM != "" {
		args = append(args, "-chardev", "socket,id=tpm,fd="+strconv.Itoa(tpmFD), "-tpmdev",
			"emulator,id=tpm,chardev=tpm", "-device", "tpm-tis,tpmdev=tpm")
	}

	if c.Screen {
		args = append(args, "-device", "virtio-gpu-pci")
	}
	if c.NoReboot {
		args = append(args, "-no-reboot")
	}

	return slices.Concat(args, c.smbios(), c.Arguments)
}

func (c Config) machine() []string {
	kind := "q35,smm=off,vmport=off"
	cpu := "max"

	if c.SecureBoot {
		kind = "q35,smm=on,vmport=off"
	}
	if c.Arch == "arm64" {
		kind = "virt"
	}

	accel := "kvm"
	if c.Accel != "kvm" {
		accel = "tcg,thread=multi,tb-size=512"
		if c.Arch == "amd64" {
			// Five-level page tables, and copies for which the processor is told
			// to go byte by byte, make emulation slower; machines in machines, and
			// traps for a kernel that is tricked, no test needs.
			cpu += ",la57=off,erms=off,fsrm=off,svm=off,smap=off,smep=off,umip=off"
		} else {
			// Pointer authentication by the architecture's own algorithm takes
			// half of the time.
			cpu += ",pauth-impdef=on"
		}
	}

	if c.CPU != "" {
		cpu = c.CPU
	}

	return []string{"-machine", kind, "-accel", accel, "-cpu", cpu}
}

func (c Config) networkDevice() string {
	device := cmp.Or(c.NIC, "virtio-net-pci") + ",netdev=net,romfile="
	if c.Netdev != "" && c.Kernel == "" { // which QEMU has the firmware start first
		device += ",bootindex=0"
	}
	return device
}

func (c Config) network() string {
	if c.Netdev != "" {
		return c.Netdev
	}

	net := "user,id=net"
	if !c.Host {
		net += ",restrict=on"
	}
	if c.BootFile != "" {
		net += ",bootfile=" + c.BootFile
	}

	for _, port := range slices.Sorted(maps.Keys(c.Forward)) {
		net += fmt.Sprintf(",hostfwd=tcp:127.0.0.1:%d-:%d", port, c.Forward[port])
	}

	return net
}

func (c Config) boot() []string {
	if c.FirmwareCode == "" {
		return []string{"-kernel", c.Kernel, "-initrd", c.Initrd, "-append", c.Cmdline}
	}

	vars := "if=pflash,format=raw,unit=1,file=" + c.FirmwareVars
	if c.ReadOnlyVars {
		vars += ",readonly=on"
	}

	args := []string{
		"-drive", "if=pflash,format=raw,unit=0,readonly=on,file=" + c.FirmwareCode,
		"-drive", vars,
	}

	if c.Kernel != "" {
		args = append(args, "-kernel", c.Kernel)
	}
	if c.SecureBoot {
		args = append(args, "-global", "driver=cfi.pflash01,property=secure,value=on")
	}

	return args
}

// smbios writes credentials as files, because command lines are too short for
// them.
func (c Config) smbios() []string {
	var args []string
	for _, name := range c.credentialNames() {
		args = append(args, "-smbios", "type=11,path="+c.credentialFile(name))
	}
	return args
}

func (c Config) credentialNames() []string {
	var names []string
	for name := range c.Credentials {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (c Config) credentialFile(name string) string {
	return filepath.Join(c.Dir, "credential-"+name)
}

func (c Config) credentialText(name string) string {
	return "io.systemd.credential.binary:" + name + "=" +
		base64.StdEncoding.EncodeToString([]byte(c.Credentials[name]))
}
