package block

import (
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Kind is what a block device is, as its driver names it.
type Kind string

// Kinds of block devices. A device of a driver that is not in this list is
// Other.
const (
	Virtio Kind = "virtio-blk"
	NVMe   Kind = "NVMe"
	// SCSI is a disk of the SCSI layer that is not on USB: SATA, SAS,
	// virtio-scsi.
	SCSI Kind = "SCSI"
	USB  Kind = "USB"
	// MMC is an SD card or an eMMC. MMCBoot is a boot partition of an eMMC,
	// which the kernel shows as a disk of its own: small, and not part of the
	// partition table.
	MMC     Kind = "MMC"
	MMCBoot Kind = "MMC boot partition"
	Xen     Kind = "Xen"
	Optical Kind = "optical drive"
	Floppy  Kind = "floppy drive"

	// Network block devices, and a disk mirrored to another machine.
	NBD  Kind = "NBD"
	RBD  Kind = "RBD"
	DRBD Kind = "DRBD"

	// Devices that the kernel makes of memory, files or other devices.
	RAM    Kind = "RAM disk"
	ZRAM   Kind = "zram"
	Loop   Kind = "loop"
	Mapped Kind = "device mapper"
	RAID   Kind = "MD RAID"
	Bcache Kind = "bcache"
	ZVol   Kind = "ZFS volume"
	MTD    Kind = "MTD"

	Other Kind = "other"
)

// prefixes are the names that drivers give their disks
// (Documentation/admin-guide/devices.txt), but for ZFS, which is not part of
// the kernel. No name begins with two of them.
var prefixes = []struct {
	prefix string
	kind   Kind
}{
	{"vd", Virtio},
	{"nvme", NVMe},
	{"sd", SCSI},
	{"mmcblk", MMC},
	{"xvd", Xen},
	{"sr", Optical},
	{"fd", Floppy},
	{"nbd", NBD},
	{"rbd", RBD},
	{"drbd", DRBD},
	{"ram", RAM},
	{"zram", ZRAM},
	{"loop", Loop},
	{"dm-", Mapped},
	{"md", RAID},
	{"bcache", Bcache},
	{"zd", ZVol},
	{"mtdblock", MTD},
}

// Disk is a block device that is not a partition.
type Disk struct {
	// Name is the name in sysfs, such as sda: see Node.
	Name string
	Kind Kind

	// Size is in bytes; 0 if the drive has no medium.
	Size int64

	// SectorSize is the size of a logical sector in bytes.
	SectorSize int

	// Removable means that the medium can be removed, or that the disk is on
	// USB: the kernel calls only the former removable.
	Removable bool
	ReadOnly  bool

	// Hidden means that the disk is one path to a disk with several, and has no
	// device node.
	Hidden bool

	// Network names the protocol over which another machine serves the disk:
	// iSCSI, Fibre Channel, RBD, or the transport of NVMe over fabrics. It is ""
	// for a disk of this machine or of its hypervisor.
	Network string
}

// List reads all block devices of the machine with the root directory root, in
// the order of their names. It opens no device, and reads nothing about those
// of the kinds except.
func List(root fs.FS, except ...Kind) ([]Disk, error) {
	entries, err := fs.ReadDir(root, "sys/block")
	if err != nil {
		return nil, err
	}

	var disks []Disk
	for _, entry := range entries {
		target := target(root, entry.Name())
		if !slices.Contains(except, kind(entry.Name(), target)) {
			disks = append(disks, read(root, entry.Name(), target))
		}
	}

	return disks, nil
}

// Read reads the disk that sysfs calls name. What sysfs does not say is the
// zero value: a disk that is not there has no size.
func Read(root fs.FS, name string) Disk {
	return read(root, name, target(root, name))
}

func read(root fs.FS, name, target string) Disk {
	dir := path.Join("sys/block", name)
	return Disk{
		Name:       name,
		Kind:       kind(name, target),
		Size:       number(root, dir, "size") * 512, // always sectors of 512 bytes
		SectorSize: int(number(root, dir, "queue/logical_block_size")),
		Removable:  number(root, dir, "removable") == 1 || onUSB(target),
		ReadOnly:   number(root, dir, "ro") == 1,
		Hidden:     number(root, dir, "hidden") == 1,
		Network:    network(root, name, target),
	}
}

var (
	// session is in the path of a disk of scsi_transport_iscsi, remotePort in
	// the path of a disk of scsi_transport_fc.
	session    = regexp.MustCompile(`/session\d+/`)
	remotePort = regexp.MustCompile(`/rport-\d+:`)
)

// network returns Disk.Network.
func network(root fs.FS, name, target string) string {
	switch {
	case session.MatchString(target):
		return "iSCSI"
	case remotePort.MatchString(target):
		return "Fibre Channel"
	case kind(name, target) == RBD:
		return "RBD"
	case !strings.HasPrefix(name, "nvme"):
		return ""
	}

	// A disk is below its controller or, if several lead to it, below the
	// subsystem, which has links to the controllers.
	dir := path.Dir(path.Join("sys/block", target))
	transports, _ := fs.Glob(root, path.Join(dir, "nvme*/transport"))
	for _, file := range append(transports, path.Join(dir, "transport")) {
		text, err := fs.ReadFile(root, file)
		if t := strings.TrimSpace(string(text)); err == nil && t != "pcie" && t != "apple-nvme" {
			return "NVMe over " + t
		}
	}

	return ""
}

// target returns the directory of a disk's device, to which its entry in
// /sys/block is a link: it names the buses that the disk is on.
func target(root fs.FS, name string) string {
	target, err := fs.ReadLink(root, path.Join("sys/block", name))
	if err != nil {
		return ""
	}
	return target
}

func kind(name, target string) Kind {
	for _, p := range prefixes {
		switch {
		case !strings.HasPrefix(name, p.prefix):
		case p.kind == SCSI && onUSB(target):
			return USB
		case p.kind == MMC && strings.Contains(name, "boot"):
			return MMCBoot
		default:
			return p.kind
		}
	}
	return Other
}

func onUSB(target string) bool { return strings.Contains(target, "/usb") }

// number returns the number in a file of sysfs, 0 if it is absent.
func number(root fs.FS, dir, name string) int64 {
	text, err := fs.ReadFile(root, path.Join(dir, name))
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
