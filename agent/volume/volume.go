package volume

import (
	"fmt"
	"slices"
	"strings"
)

// Label is that of the file system of a data volume. It is Gardener's, so that
// a disk that its own script has formatted is found, too.
const Label = "KUBEDEV"

// FormatMark at the start of a disk says that it was empty and claimed, and
// that it is being formatted: the first block of the file system, which comes
// last, replaces it.
const FormatMark = "LOAM DATA VOLUME, TO BE FORMATTED\n"

// Disk is a whole block device that could hold data. Size and SectorSize are in
// bytes.
type Disk struct {
	// Device is its node, /dev/vdb.
	Device     string
	Size       int64
	SectorSize int

	// Serial, Model and WWID are as the device tells them, without blanks
	// around; "" if it does not.
	Serial, Model, WWID string

	// Paths are its names in /dev/disk/by-path.
	Paths []string

	// Removable also means on a USB port.
	Removable bool
	ReadOnly  bool

	// Uses say what the disk is in use for, such as "mounted at /var".
	Uses []string

	// Content is what was read from it.
	Content Content

	// Parts are its partitions as the kernel sees them, whatever table it has
	// them from.
	Parts []Part
}

// Part is a partition.
type Part struct {
	Device  string
	Size    int64
	Content Content
}

// Content is what a device holds.
type Content struct {
	// Evidence is all that was found on it, in the order of its offsets; a
	// device is empty if there is none.
	Evidence []Evidence

	// FileSystem is the type of the data volume on it, ext4 or xfs; "" if there
	// is none. Used is how much of the device it has, in bytes.
	FileSystem string
	Used       int64

	// Unfinished says that it has the FormatMark, and nothing that Loam does
	// not write after it.
	Unfinished bool
}

// Names of evidence that is no signature.
const (
	Unknown    = "unknown bytes"
	Unreadable = "cannot be read"
	marked     = "loam-format-mark"
)

// Evidence is a reason to call a device not empty. Name is that of a table or
// signature as blkid(8) has it, or one of the names above; Version is "" if
// there is none.
type Evidence struct {
	Name, Version string
	// Offset is the byte at which the signature, or the first byte that is not
	// zero, is.
	Offset int64
}

func (e Evidence) String() string {
	if e.Version != "" {
		return fmt.Sprintf("%s %s at byte %d", e.Name, e.Version, e.Offset)
	}
	return fmt.Sprintf("%s at byte %d", e.Name, e.Offset)
}

// has reports whether some evidence has that name.
func (c Content) has(name string) bool {
	return slices.ContainsFunc(c.Evidence, func(e Evidence) bool { return e.Name == name })
}

// maxShown is how much evidence of one disk a person gets to see.
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
