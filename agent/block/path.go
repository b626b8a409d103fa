package block

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// Paths returns the names that udev gives a disk in /dev/disk/by-path (its
// builtin path_id, and 60-persistent-storage.rules), from sysfs alone. It
// returns only names that no other disk can have: for disks on PCI that are
// virtio, NVMe with one controller, ATA, or SCSI without a fabric. For other
// disks it returns none. The name that udev prefers comes first. root is the
// root directory, name the disk's name in sys/block.
func Paths(root fs.FS, name string) []string {
	target, err := fs.ReadLink(root, path.Join("sys/block", name))
	if err != nil {
		return nil
	}

	device := path.Join("sys/block", target)
	controller, below := controller(device)
	if controller == "" {
		return nil
	}

	var names []string
	for _, end := range ends(root, device, below) {
		names = append(names, controller+end)
	}

	return names
}

var (
	function  = regexp.MustCompile(`^[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)
	virtio    = regexp.MustCompile(`^virtio\d+/block/[^/]+$`)
	namespace = regexp.MustCompile(`^nvme/[^/]+/[^/]+$`)
	ata       = regexp.MustCompile(`^(ata\d+)/host\d+/target[^/]+/\d+:0:(\d+):\d+/block/`)
	scsi      = regexp.MustCompile(
		`^(virtio\d+/)?host(\d+)/target[^/]+/\d+:(\d+):(\d+):(\d+)/block/`,
	)
)

// controller returns the name of a disk's PCI device, and the rest of the
// disk's directory. Where another PCI hierarchy begins behind a PCI device, the
// name has both. A host bridge is part of the name if it is a platform device.
func controller(device string) (name, below string) {
	parts := strings.Split(device, "/")
	for i, p := range parts[:len(parts)-1] {
		switch {
		case name == "" && strings.HasPrefix(p, "pci") &&
			strings.HasPrefix(device, "sys/devices/platform/"):
			name = "platform-" + parts[i-1]
		case name == "" && strings.HasPrefix(p, "pci") && parts[i-1] != "devices":
			return "", "" // such as a host bridge of ACPI
		case function.MatchString(p) && !function.MatchString(parts[i+1]):
			name = strings.TrimPrefix(name+"-pci-"+p, "-")
			below = strings.Join(parts[i+1:], "/")
		}
	}
	return name, below
}

// ends returns what follows the controller's name.
func ends(root fs.FS, device, below string) []string {
	if virtio.MatchString(below) {
		return []string{""}
	}
	if namespace.MatchString(below) {
		return numbered(root, device+"/nsid", "-nvme-%s")
	}

	above := strings.TrimSuffix(device, below)
	if m := ata.FindStringSubmatch(below); m != nil {
		names := []string{"-ata-%s." + m[2]}
		if m[2] == "0" { // udev has this name, too, for the first disk of a cable.
			names = append(names, "-ata-%s")
		}
		return numbered(root, path.Join(above, m[1], "ata_port", m[1], "port_no"), names...)
	}

	m := scsi.FindStringSubmatch(below)
	if m == nil {
		return nil
	}

	host, _ := strconv.Atoi(m[2])
	return []string{fmt.Sprintf("-scsi-%d:%s:%s:%s",
		host-firstHost(root, path.Join(above, m[1])), m[3], m[4], m[5])}
}

// numbered returns the formats with the number in a file.
func numbered(root fs.FS, file string, formats ...string) (names []string) {
	text, err := fs.ReadFile(root, file)
	for _, format := range formats {
		if err == nil {
			names = append(names, fmt.Sprintf(format, strings.TrimSpace(string(text))))
		}
	}
	return names
}

// firstHost returns the lowest number among the SCSI hosts of a device. The
// kernel counts the hosts of all devices, udev those on each device.
func firstHost(root fs.FS, dir string) int {
	first := -1
	hosts, _ := fs.Glob(root, path.Join(dir, "host*"))
	for _, h := range hosts {
		n, err := strconv.Atoi(strings.TrimPrefix(path.Base(h), "host"))
		if err == nil && (first < 0 || n < first) {
			first = n
		}
	}
	return max(first, 0)
}
