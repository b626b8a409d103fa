package volume

import (
	"fmt"
	"slices"
	"strings"
)

// Label is the label of a data volume's file system.
const Label = "KUBEDEV"

// FormatMark is the mark of a disk that becomes a data volume.
const FormatMark = "LOAM DATA VOLUME, TO BE FORMATTED\n"

// Disk is a whole block device that could hold data. Size and SectorSize are in
// bytes.
type Disk struct {
	// Device is its node, such as /dev/vdb.
	Device     string
	Size       int64
	SectorSize int

	// Serial, Model and WWID are as the device gives them, without white space
	// around; "" if it does not.
	Serial, Model, WWID string

	// Paths are its names in /dev/disk/by-path.
	Paths []string

	// Removable is also true for a disk on USB.
	Removable bool
	ReadOnly  bool

	// Network names the protocol over which another machine serves the disk, "" for
	// a disk of this machine or of its hypervisor.
	Network string

	// Uses says what uses the disk, such as "mounted at /var".
	Uses []string

	// Content is what was read from it.
	Content Content

	// Parts are its partitions as the kernel sees them, whatever table they are
	// in.
	Parts []Part
}

// Part is a partition.
type Part struct {
	Device string
	// Label is the name that a GPT gives it, "" if it has none.
	Label   string
	Size    int64
	Content Content
}

// Content is what a device holds.
type Content struct {
	// Evidence is all that was found on the device, ordered by offset. A device
	// without evidence is empty.
	Evidence []Evidence

	// Volume is the label of the [Purpose] whose mark or volume is on it; "" without
	// one.
	Volume string

	// FileSystem is the type of the volume on it, ext4 or xfs; "" without one.
	// Used is the size of that file system in bytes.
	FileSystem string
	Used       int64

	// Container is the UUID of an encrypted volume, "" if the device has none.
	Container string

	// Unformatted means that it begins with the mark of a state partition that
	// its node will format. Decide ignores it.
	Unformatted bool

	// Unfinished means that it has the mark of its Volume, and otherwise only what
	// Loam writes after it.
	Unfinished bool
}

// Names of evidence other than signatures.
const (
	Unknown    = "unknown bytes"
	Unreadable = "cannot be read"
	marked     = "loam-format-mark"
)

// Evidence is a reason not to call a device empty. Name is the name of a table
// or signature in blkid(8), or one of the names above; Version is "" if it is
// not known.
type Evidence struct {
	Name, Version string
	// Offset is the offset of the signature, or of the first byte that is not
	// zero.
	Offset int64
}

func (e Evidence) String() string {
	if e.Version != "" {
		return fmt.Sprintf("%s %s at byte %d", e.Name, e.Version, e.Offset)
	}
	return fmt.Sprintf("%s at byte %d", e.Name, e.Offset)
}

// purpose returns what the volume on it is for, nil without one.
func (c Content) purpose() *Purpose { return labelled(c.Volume) }

// has reports whether some evidence has that name.
func (c Content) has(name string) bool {
	return slices.ContainsFunc(c.Evidence, func(e Evidence) bool { return e.Name == name })
}

// maxShown is how many pieces of evidence of one disk are shown.
const maxShown = 4

func (c Content) String() string {
	if len(c.Evidence) == 0 {
		return "empty"
	}

	var out []string
	for _, e := range c.Evidence[:min(len(c.Evidence), maxShown)] {
		out = append(out, e.String())
	}

	if more := len(c.Evidence) - maxShown; more > 0 {
		out = append(out, fmt.Sprintf("%d more", more))
	}

	return strings.Join(out, ", ")
}
