// Package drive finds a config drive by the label of its file system, and reads
// files from it: what a hypervisor or an operator hands over.
//
// Labels are read without a mount. The files of the one drive are read through
// a read-only mount by the kernel that is in no directory, because FAT has
// three kinds of long names and ISO 9660 two.
package drive

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/block"
)

// Drive is a disk, or a partition of one.
type Drive struct {
	// Device is the device node, such as /dev/sr0.
	Device string
	FileSystem
}

// String is what a person is told of it.
func (d Drive) String() string { return fmt.Sprintf("drive %s (%s)", d.Device, d.Label) }

// notDrives are the kinds of devices on which files are not handed over: this
// system makes them itself, or, for a floppy drive, it takes seconds to find
// out that there is no medium.
var notDrives = []block.Kind{
	block.RAM,
	block.ZRAM,
	block.Loop,
	block.Mapped,
	block.RAID,
	block.NBD,
	block.Floppy,
}

// Find lists the drives that have one of the labels, whatever its case. A disk
// that has it as a whole is one drive, also if it has partitions too. A disk
// that cannot be read is an error only if none was found: it may have been
// meant, or it is just broken.
func Find(labels ...string) ([]Drive, error) {
	disks, err := block.List(os.DirFS("/"), notDrives...)
	if err != nil {
		return nil, fmt.Errorf("list drives: %w", err)
	}

	var found []Drive
	var unread []error
	for _, disk := range disks {
		drives, err := onDisk(disk.Name, labels)
		found = append(found, drives...)
		unread = append(unread, err)
	}
	if len(found) > 0 {
		return found, nil
	}

	return nil, errors.Join(unread...)
}

func onDisk(name string, labels []string) (found []Drive, err error) {
	whole, err := look(block.Node(name))
	if err != nil {
		return nil, err
	}
	if whole.has(labels) {
		return []Drive{whole}, nil
	}

	nodes := block.Partitions(filepath.Join("/sys/block", name))
	for _, number := range slices.Sorted(maps.Keys(nodes)) {
		part, err := look(nodes[number])
		if err != nil {
			return nil, err
		}
		if part.has(labels) {
			found = append(found, part)
		}
	}

	return found, nil
}

// look reads what file system is on a device. A drive that has no medium has
// none, and so has one that is gone.
func look(device string) (Drive, error) {
	f, err := os.Open(device)
	if errors.Is(err, unix.ENOMEDIUM) || errors.Is(err, unix.ENXIO) ||
		errors.Is(err, os.ErrNotExist) {
		return Drive{}, nil
	}

	if err != nil {
		return Drive{}, err
	}

	defer f.Close()
	fs, err := Identify(f)
	if err != nil {
		return Drive{}, fmt.Errorf("read %s: %w", device, err)
	}

	return Drive{device, fs}, nil
}

func (d Drive) has(labels []string) bool {
	return slices.ContainsFunc(labels, func(label string) bool {
		return strings.EqualFold(label, d.Label)
	})
}
