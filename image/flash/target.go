package flash

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Host is what a machine says about its disks.
type Host struct {
	// Sys is sysfs, Udev is /run/udev/data, which need not be there.
	Sys, Udev fs.FS
	// Mounts is /proc/self/mountinfo (proc_pid_mountinfo(5)), Swaps /proc/swaps.
	Mounts, Swaps string
}

// Target is a disk that an image could be written to. Sizes are in bytes.
type Target struct {
	Device, Name     string // "/dev/sdb", "sdb"
	Model, Serial    string // "" if the disk does not say
	Size             int64
	SectorSize       int
	Removable        bool
	ReadOnly, System bool // System: the machine itself runs from it.
	// Uses say what the kernel does with it, a line each.
	Uses []string
}

// Observe looks at a disk by the path of its device, which is no link.
func (h Host) Observe(device string) (t Target, err error) {
	t = Target{Device: device, Name: filepath.Base(device)}
	dir := path.Join("class/block", t.Name)
	if _, err := fs.Stat(h.Sys, dir); err != nil {
		return t, fmt.Errorf("%s: no block device of this machine: %w", device, err)
	}
	if _, err := fs.Stat(h.Sys, path.Join(dir, "partition")); err == nil {
		return t, fmt.Errorf("%s: it is a partition\nhint: an image has a whole disk; lsblk shows which it is on", device)
	}
	sectors, err1 := strconv.ParseInt(h.read(dir, "size"), 10, 64)
	sector, err2 := strconv.Atoi(h.read(dir, "queue/logical_block_size"))
	if err := errors.Join(err1, err2); err != nil {
		return t, fmt.Errorf("%s: %w", device, err)
	}
	t.Size, t.SectorSize = sectors*512, sector // The size is in 512 whatever the sectors are.
	t.Removable, t.ReadOnly = h.read(dir, "removable") == "1", h.read(dir, "ro") == "1"
	udev := h.udev(h.read(dir, "dev"))
	t.Model = cmp.Or(strings.ReplaceAll(udev["ID_MODEL"], "_", " "), h.read(dir, "device/model"), h.read(dir, "device/name"))
	t.Serial = cmp.Or(udev["ID_SERIAL_SHORT"], h.read(dir, "serial"), h.read(dir, "device/serial"), h.page80(dir))
	t.Uses, t.System = h.uses(t.Name)
	return t, nil
}

// read is a file of sysfs without spaces around, "" if it is not there.
func (h Host) read(dir, name string) string {
	text, _ := fs.ReadFile(h.Sys, path.Join(dir, name))
	return strings.TrimSpace(string(text))
}

// page80 is the serial number that a SCSI disk has (SPC-4, 7.8.15): four bytes of header, then text.
func (h Host) page80(dir string) string {
	page, _ := fs.ReadFile(h.Sys, path.Join(dir, "device/vpd_pg80"))
	return strings.TrimSpace(strings.Trim(string(page[min(4, len(page)):]), "\x00"))
}

// udev are the properties that udevd keeps of a block device, as "8:16".
func (h Host) udev(number string) map[string]string {
	all := map[string]string{}
	if h.Udev == nil {
		return all
	}
	text, _ := fs.ReadFile(h.Udev, "b"+number)
	for line := range strings.Lines(string(text)) {
		if property, ok := strings.CutPrefix(strings.TrimSpace(line), "E:"); ok {
			name, value, _ := strings.Cut(property, "=")
			all[name] = value
		}
	}
	return all
}

// uses are those of a disk, its partitions, and all that is made of them.
func (h Host) uses(name string) (uses []string, system bool) {
	dir := path.Join("class/block", name)
	number := h.read(dir, "dev")
	for _, at := range h.mounts(number) {
		uses = append(uses, fmt.Sprintf("%s is mounted on %s", name, at))
		system = system || slices.Contains([]string{"/", "/usr", "/boot", "/boot/efi", "/efi", "/var"}, at)
	}
	lines := bufio.NewScanner(strings.NewReader(h.Swaps))
	for lines.Scan() {
		if device, _, _ := strings.Cut(lines.Text(), " "); device == "/dev/"+strings.ReplaceAll(name, "!", "/") {
			uses = append(uses, name+" is swap")
			system = true
		}
	}
	below, _ := fs.ReadDir(h.Sys, path.Join(dir, "holders"))
	for _, holder := range below {
		uses = append(uses, fmt.Sprintf("%s is made of %s", holder.Name(), name))
	}
	entries, _ := fs.ReadDir(h.Sys, dir)
	for _, e := range entries {
		if _, err := fs.Stat(h.Sys, path.Join(dir, e.Name(), "partition")); err == nil {
			below = append(below, e)
		}
	}
	for _, e := range below {
		more, itself := h.uses(e.Name())
		uses, system = append(uses, more...), system || itself
	}
	return uses, system
}

// mounts are the places where a device is mounted.
func (h Host) mounts(number string) (at []string) {
	for line := range strings.Lines(h.Mounts) {
		if f := strings.Fields(line); len(f) > 4 && f[2] == number {
			at = append(at, f[4])
		}
	}
	return at
}

// Word is what a person has to say to have the disk overwritten: its serial number, or its name if it has none.
func (t Target) Word() string { return cmp.Or(t.Serial, t.Name) }

// Check says why an image cannot go to a disk, nil if it can.
func Check(t Target, im Image) error {
	switch {
	case t.System:
		return fmt.Errorf("%s: this machine runs from it: %s", t.Device, strings.Join(t.Uses, ", "))
	case len(t.Uses) > 0:
		return fmt.Errorf("%s: it is in use: %s\nhint: unmount it first", t.Device, strings.Join(t.Uses, ", "))
	case t.ReadOnly:
		return fmt.Errorf("%s: it is read-only\nhint: an SD card has a switch for that", t.Device)
	case t.SectorSize != im.Table.SectorSize:
		return fmt.Errorf("%s: it has sectors of %d bytes, the image is for %d\nhint: loamctl build --sector-size %d", t.Device, t.SectorSize, im.Table.SectorSize, t.SectorSize)
	case t.Size < im.Table.DiskSize:
		return fmt.Errorf("%s: it has %d MiB, the image needs %d MiB", t.Device, t.Size>>20, im.Table.DiskSize>>20)
	}
	return nil
}
