package volume

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/loam-os/loam/agent/block"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// Device is a block device that is open to be read.
type Device interface {
	io.ReaderAt
	io.Closer
}

// ErrBusy says that another user has opened a device exclusively (EBUSY for
// O_EXCL).
var ErrBusy = fault.With(errors.New("opened exclusively"), fault.InUse)

// Machine is what Observe reads.
type Machine struct {
	// Root is the root directory of the machine; Observe reads sys, proc and
	// dev/disk.
	Root fs.FS
	// Open opens a device node to read. If exclusive, a device that is in use
	// returns ErrBusy.
	Open func(node string, exclusive bool) (Device, error)
}

// noVolume are the kinds of devices that cannot hold a volume: those without a
// medium of their own, those made of other devices, which they use, and the
// boot partitions of an eMMC, which are small and empty.
var noVolume = []block.Kind{
	block.RAM,
	block.ZRAM,
	block.Loop,
	block.Mapped,
	block.RAID,
	block.Bcache,
	block.DRBD,
	block.ZVol,
	block.NBD,
	block.MTD,
	block.MMCBoot,
	block.Optical,
	block.Floppy,
}

// Observe reads the facts of all disks, in the order of their names. It changes
// nothing. A disk that cannot be read is a fact, too.
func Observe(m Machine) ([]Disk, error) {
	found, err := block.List(m.Root, noVolume...)
	if err != nil {
		return nil, fmt.Errorf("list disks: %w", err)
	}

	uses, err := m.uses()
	if err != nil {
		return nil, err
	}

	paths := m.paths()
	var disks []Disk
	for _, b := range found {
		if b.Size > 0 && !b.Hidden {
			disks = append(disks, m.disk(b, uses, paths[b.Name]))
		}
	}

	return disks, nil
}

// ObserveOne reads the facts of the disk with a device node.
func ObserveOne(m Machine, device string) (Disk, error) {
	name := strings.ReplaceAll(strings.TrimPrefix(device, "/dev/"), "/", "!")
	if parent, _ := fs.Glob(m.Root, path.Join("sys/block/*", name, "partition")); len(parent) > 0 {
		disk := path.Base(path.Dir(path.Dir(parent[0])))
		return Disk{}, fault.With(
			fmt.Errorf("%s: it is a partition of %s", device, block.Node(disk)), fault.DiskNotFit,
		)
	}

	b := block.Read(m.Root, name)
	if b.Size == 0 {
		return Disk{}, hint.With(
			fault.With(
				fmt.Errorf("%s: no disk, or one without a medium", device), fault.DiskNotFit,
			),
			"lsblk lists them",
		)
	}

	uses, err := m.uses()
	if err != nil {
		return Disk{}, err
	}

	return m.disk(b, uses, m.paths()[name]), nil
}

// Still returns an error if the node of a disk now belongs to another disk, or
// if the content has changed. A disk that is unplugged, even for a moment,
// leaves its node to another.
func (m Machine) Still(d Disk) error {
	now, err := ObserveOne(m, d.Device)
	if err != nil {
		return err
	}

	if now.Serial != d.Serial || now.WWID != d.WWID || now.Model != d.Model || now.Size != d.Size ||
		now.SectorSize != d.SectorSize {
		return fmt.Errorf("it is another disk now: %s, serial %q, %d MiB",
			cmp.Or(now.Model, "unknown model"), now.Serial, now.Size>>20)
	}

	if !slices.Equal(now.Content.Evidence, d.Content.Evidence) {
		return fmt.Errorf("its content has changed: %s", now.Content)
	}

	return nil
}

func (m Machine) disk(b block.Disk, uses map[string][]string, paths []string) Disk {
	dir := path.Join("sys/block", b.Name)
	target, _ := fs.ReadLink(m.Root, dir)
	d := Disk{
		Device:     block.Node(b.Name),
		Size:       b.Size,
		SectorSize: b.SectorSize,
		Paths:      paths,
		Serial:     m.serial(dir, target),
		Model:      m.first(dir+"/device/model", dir+"/device/name"),
		WWID:       m.first(dir+"/wwid", dir+"/device/wwid"),
		Removable:  b.Removable,
		ReadOnly:   b.ReadOnly,
		Network:    b.Network,
	}
	if len(d.Paths) == 0 {
		d.Paths = block.Paths(m.Root, b.Name) // There is no udev in the initramfs.
	}

	d.Uses = append(m.holders(dir), uses[m.text(dir+"/dev")]...)
	parts, _ := fs.Glob(m.Root, dir+"/*/partition")
	slices.SortStableFunc(parts, func(a, b string) int {
		return cmp.Compare(m.number(a), m.number(b))
	})
	for _, p := range parts {
		p = path.Dir(p)
		d.Uses = append(d.Uses, append(m.holders(p), uses[m.text(p+"/dev")]...)...)
		partition := Part{
			Device: block.Node(path.Base(p)),
			Label:  m.partitionLabel(p),
			Size:   m.number(p+"/size") * 512,
		}
		partition.Content, _ = m.look(partition.Device, partition.Size)
		d.Parts = append(d.Parts, partition)
	}

	d.Uses = distinct(d.Uses)
	var busy bool
	d.Content, busy = m.look(d.Device, b.Size)
	if busy && len(d.Uses) == 0 {
		d.Uses = append(d.Uses, ErrBusy.Error())
	}

	return d
}

// partitionLabel returns the name that a GPT gives a partition, "" if none.
func (m Machine) partitionLabel(dir string) string {
	text, _ := fs.ReadFile(m.Root, dir+"/uevent")
	for line := range strings.Lines(string(text)) {
		if label, ok := strings.CutPrefix(line, "PARTNAME="); ok {
			return identity(label)
		}
	}
	return ""
}

// look reads a device and reports whether another user has it exclusively. To
// find out, it opens the device exclusively and closes it at once: a mount in
// between would fail.
func (m Machine) look(node string, size int64) (c Content, busy bool) {
	f, err := m.Open(node, true)
	busy = errors.Is(err, ErrBusy)
	if err == nil {
		f.Close()
	}

	f, err = m.Open(node, false)
	if err != nil {
		return Content{Evidence: []Evidence{{Name: Unreadable}}}, busy
	}
	defer f.Close()

	return ReadContent(f, size), busy
}

// Serial returns the serial number of the disk that sysfs calls name, "" if it
// has none.
func (m Machine) Serial(name string) string {
	dir := path.Join("sys/block", name)
	target, _ := fs.ReadLink(m.Root, dir)
	return m.serial(dir, target)
}

// serial returns the serial number of the device, of page 0x80 of SCSI's vital
// product data, after its header of four bytes, or of the USB device that has
// the disk. target is the device's directory.
func (m Machine) serial(dir, target string) string {
	if s := m.first(dir+"/serial", dir+"/device/serial"); s != "" {
		return s
	}

	page, _ := fs.ReadFile(m.Root, dir+"/device/vpd_pg80")
	serial := identity(string(page[min(4, len(page)):]))
	for at := path.Dir(path.Join("sys/block", target)); serial == "" &&
		strings.Contains(at, "/usb"); at = path.Dir(at) {
		serial = m.text(at + "/serial")
	}

	return serial
}

// paths returns the names in /dev/disk/by-path by the names of their devices.
func (m Machine) paths() map[string][]string {
	out := map[string][]string{}
	const dir = "dev/disk/by-path"
	entries, _ := fs.ReadDir(m.Root, dir)
	for _, e := range entries {
		if target, err := fs.ReadLink(m.Root, path.Join(dir, e.Name())); err == nil {
			name := strings.TrimPrefix(path.Clean(path.Join("/", dir, target)), "/dev/")
			out[name] = append(out[name], e.Name())
		}
	}

	return out
}

// first returns the text of the first file that is not empty.
func (m Machine) first(names ...string) string {
	for _, name := range names {
		if text := m.text(name); text != "" {
			return text
		}
	}
	return ""
}

func (m Machine) text(name string) string {
	text, _ := fs.ReadFile(m.Root, name)
	return identity(string(text))
}

// identity returns what a device says of itself without white space and zeros
// around it, and without all that is not ASCII. Claims are compared with it: it
// is not [printable.Line], which has one space in the place of several.
func identity(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, text)
	return strings.TrimSpace(text)
}

// number returns the number in a file of sysfs, 0 if it is absent.
func (m Machine) number(name string) int64 {
	n, _ := strconv.ParseInt(m.text(name), 10, 64)
	return n
}
