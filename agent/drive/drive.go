// Package drive finds a config drive by the label of its file system, and reads
// files from it: what a hypervisor or an operator hands over.
//
// Labels are read without a mount. Files are read through a read-only mount
// that is in no directory: the kernel's drivers know the three kinds of long
// names on FAT and the two on ISO 9660.
package drive

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/block"
	"github.com/loam-os/loam/agent/mount"
)

// Drive is a disk, or a partition of one.
type Drive struct {
	// Device is the device node, such as /dev/sr0.
	Device string
	// Disk is the name of the disk in sysfs.
	Disk string
	FileSystem
}

// String returns the device and the label, for messages.
func (d Drive) String() string { return fmt.Sprintf("drive %s (%s)", d.Device, d.Label) }

// notDrives are the kinds of devices that are never searched. This system makes
// most of them itself, or gets them over the network for its pods. A floppy
// drive takes seconds to find out that it has no medium.
var notDrives = []block.Kind{
	block.RAM,
	block.ZRAM,
	block.Loop,
	block.Mapped,
	block.RAID,
	block.Bcache,
	block.ZVol,
	block.NBD,
	block.RBD,
	block.DRBD,
	block.Floppy,
}

// candidates lists the disks that may be a config drive: disks of this machine,
// or of its hypervisor, that the kubelet has not attached for a pod. root is
// the root directory.
func candidates(root fs.FS) ([]block.Disk, error) {
	disks, err := block.List(root, notDrives...)
	if err != nil {
		return nil, fmt.Errorf("list drives: %w", err)
	}

	text, err := fs.ReadFile(root, mount.Path)
	if err != nil {
		return nil, fmt.Errorf("list drives: %w", err)
	}

	table := mount.Parse(string(text))
	return slices.DeleteFunc(disks, func(d block.Disk) bool {
		return d.Network != "" || ofKubelet(root, table, d.Name)
	}), nil
}

// kubelet is where the kubelet mounts the volumes of pods.
const kubelet = "/var/lib/kubelet/"

// ofKubelet reports whether the kubelet has attached a disk or a partition of
// it: it mounts the file system, or binds the device node of a raw volume.
func ofKubelet(root fs.FS, table mount.Table, name string) bool {
	dir := path.Join("sys/block", name)
	numbers, _ := fs.Glob(root, dir+"/*/dev")
	for _, file := range append(numbers, dir+"/dev") {
		text, err := fs.ReadFile(root, file)
		device := strings.TrimSpace(string(text))
		if err != nil {
			continue
		}

		node := "/" + strings.ReplaceAll(path.Base(path.Dir(file)), "!", "/")
		used := func(m mount.Mount) bool {
			raw := m.FileSystem == "devtmpfs" && m.Root == node
			return strings.HasPrefix("/"+strings.TrimPrefix(m.Point, "/"), kubelet) &&
				(m.Device == device || raw)
		}
		if slices.ContainsFunc(table, used) {
			return true
		}
	}

	return false
}

// Find lists the drives that have one of the labels, in upper or lower case. If
// the disk itself has the label, its partitions are not searched. A disk that
// cannot be read is an error only if no drive was found: it may be the one that
// was meant, or just broken.
func Find(labels ...string) ([]Drive, error) {
	disks, err := candidates(os.DirFS("/"))
	if err != nil {
		return nil, err
	}

	var found []Drive
	var unread []error
	for _, disk := range disks {
		drives, err := onDisk(disk.Name, labels)
		for i := range drives {
			drives[i].Disk = disk.Name
		}
		found = append(found, drives...)
		unread = append(unread, err)
	}
	if len(found) > 0 {
		return found, nil
	}

	return nil, errors.Join(unread...)
}

// onDisk lists the drives with one of the labels on a disk.
func onDisk(name string, labels []string) (found []Drive, unread error) {
	whole, err := observe(block.Node(name))
	if err != nil {
		return nil, err
	}
	if whole.has(labels) {
		return []Drive{whole}, nil
	}

	return among(block.Partitions(filepath.Join("/sys/block", name)), labels)
}

// among lists the drives with one of the labels among partitions by number. unread
// says which of them could not be read.
func among(nodes map[int]string, labels []string) (found []Drive, unread error) {
	for _, number := range slices.Sorted(maps.Keys(nodes)) {
		part, err := observe(nodes[number])
		unread = errors.Join(unread, err)
		if part.has(labels) {
			found = append(found, part)
		}
	}

	return found, unread
}

// observe identifies the file system of a device. The zero Drive means that the
// drive has no medium or is gone.
func observe(device string) (Drive, error) {
	f, err := os.Open(device)
	if errors.Is(err, unix.ENOMEDIUM) || errors.Is(err, unix.ENXIO) ||
		errors.Is(err, os.ErrNotExist) {
		return Drive{}, nil
	}

	if err != nil {
		return Drive{}, err
	}

	defer f.Close()
	system, err := Identify(f)
	if err != nil {
		return Drive{}, fmt.Errorf("read %s: %w", device, err)
	}

	return Drive{Device: device, FileSystem: system}, nil
}

func (d Drive) has(labels []string) bool {
	return slices.ContainsFunc(labels, func(label string) bool {
		return strings.EqualFold(label, d.Label)
	})
}
