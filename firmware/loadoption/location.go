package loadoption

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/loam-os/loam/partitions/gpt"
)

// Location is where an option finds its program.
type Location struct {
	// Partition is the UUID of the GPT partition; the nil UUID if the path has
	// none.
	Partition uuid.UUID `json:"partition"`

	// Hardware is the way to the disk from the root of PCI, as far as it is
	// known: "pci 1f.2", "sata 0". It is empty in the short form of a path,
	// which begins with the partition.
	Hardware []string `json:"hardware,omitempty"`
}

// Locate reads the location from the value of a variable Boot####.
func Locate(option []byte) (l Location, err error) {
	nodes, err := split(option)
	if err != nil {
		return Location{}, fmt.Errorf("boot option: %w", err)
	}

	known := true // all nodes so far
	for _, n := range nodes {
		if id, ok := n.partition(); ok {
			l.Partition = id
			break
		}

		step, ok := n.hardware()
		known = known && ok
		if known && step != "" {
			l.Hardware = append(l.Hardware, step)
		}
	}

	return l, nil
}

// Same reports whether two options start the same program of the same partition.
// Firmware completes the path of an option with the way to the disk, and may add to
// the option what it likes. One that is not active starts nothing.
func Same(a, b []byte) bool {
	first, ok := programOf(a)
	second, also := programOf(b)
	return bytes.Equal(a, b) || (ok && also && first == second)
}

// program is a file on a partition. Its path is as in the node of a file (10.3.5.4).
type program struct {
	partition uuid.UUID
	path      string
}

// programOf returns the program of an active option. ok is false if it does not
// name the partition and the file.
func programOf(option []byte) (p program, ok bool) {
	const active = 1
	nodes, err := split(option)
	if err != nil || option[0]&active == 0 {
		return program{}, false
	}

	for _, n := range nodes {
		if id, ok := n.partition(); ok {
			p.partition = id
		}
		if n.is(4, 4, 4) {
			p.path += string(n.data[4:])
		}
	}
	return p, p.partition != uuid.Nil && p.path != ""
}

// Renew returns the option with the UUID of a partition replaced, and whether
// it had the old one.
func Renew(option []byte, from, to uuid.UUID) ([]byte, bool) {
	nodes, err := split(option)
	if err != nil {
		return option, false
	}

	option = bytes.Clone(option)
	found := false
	for _, n := range nodes {
		if id, ok := n.partition(); ok && id == from {
			copy(option[n.offset+24:], guid(to))
			found = true
		}
	}

	return option, found
}

// node is a node of a device path (UEFI 2.10, 10.3.1), with its header.
type node struct {
	offset int // in the option
	data   []byte
}

// split returns the nodes of the first device path of an option.
func split(option []byte) (nodes []node, err error) {
	const fixed = 6
	if len(option) < fixed {
		return nil, errors.New("too short")
	}

	// The description comes before the path.
	at := fixed
	for {
		if at+2 > len(option) {
			return nil, errors.New("its description has no end")
		}
		unit := binary.LittleEndian.Uint16(option[at:])
		at += 2
		if unit == 0 {
			break
		}
	}

	limit := at + int(binary.LittleEndian.Uint16(option[4:]))
	if limit > len(option) {
		return nil, errors.New("its path is cut off")
	}

	for at+4 <= limit {
		size := int(binary.LittleEndian.Uint16(option[at+2:]))
		if size < 4 || at+size > limit {
			return nil, errors.New("a node of its path has no valid length")
		}

		n := node{at, option[at : at+size]}
		if n.data[0] == end[0] {
			break
		}

		nodes = append(nodes, n)
		at += size
	}

	return nodes, nil
}

// is reports whether a node has a type and subtype, and at least size bytes.
func (n node) is(kind, subtype byte, size int) bool {
	return n.data[0] == kind && n.data[1] == subtype && len(n.data) >= size
}

// partition returns the UUID in the node of a partition (10.3.5.1).
func (n node) partition() (uuid.UUID, bool) {
	const byGUID = 2
	if !n.is(4, 1, 42) || n.data[41] != byGUID {
		return uuid.Nil, false
	}
	return gpt.GUID(n.data[24:]), true
}

// hardware returns the step of a node: "" for the root, which all disks share.
// ok is false for a node that it does not know.
func (n node) hardware() (step string, ok bool) {
	number16 := func(at int) uint16 { return binary.LittleEndian.Uint16(n.data[at:]) }
	switch {
	case n.is(2, 1, 12): // ACPI: a PCI root (10.3.3)
		return "", true
	case n.is(1, 1, 6): // PCI (10.3.2.1)
		return PCI(n.data[5], n.data[4]), true
	case n.is(3, 2, 8): // SCSI (10.3.4.2)
		return SCSI(int(number16(4)), int(number16(6))), true
	case n.is(3, 18, 10): // SATA (10.3.4.6)
		return SATA(int(number16(4))), true
	case n.is(3, 23, 16): // NVMe (10.3.4.13)
		return NVMe(int(binary.LittleEndian.Uint32(n.data[4:]))), true
	}
	return "", false
}

// PCI is the step to a PCI device below a bridge or a root.
func PCI(device, function byte) string { return fmt.Sprintf("pci %02x.%x", device, function) }

// SCSI is the step to a disk of a SCSI host.
func SCSI(target, lun int) string { return fmt.Sprintf("scsi %d:%d", target, lun) }

// SATA is the step to a port of a SATA controller; ports count from 0.
func SATA(port int) string { return fmt.Sprintf("sata %d", port) }

// NVMe is the step to a namespace of an NVMe controller.
func NVMe(namespace int) string { return fmt.Sprintf("nvme %d", namespace) }

// LeadsTo reports whether the way of an option can be the way to a disk. Either
// may be known in part, but not less than its PCI device.
func (l Location) LeadsTo(disk []string) bool {
	n := min(len(l.Hardware), len(disk))
	return n > 0 && slices.Equal(l.Hardware[:n], disk[:n])
}
