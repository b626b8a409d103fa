// Package wear says how worn the disks of a node are, and which of them fail.
//
//	Observe --Reading--> decide --> status.Disk, each disk that says something
//	smartctl, sysfs
//
// NVMe, SATA and SAS disks are asked by smartctl, which knows what the numbers
// of each maker mean. What an eMMC says is in sysfs. A virtual disk says nothing.
//
// A disk fails if it says so itself. It is worn when nine tenths of what it is
// made for are used: then there is time to replace it.
package wear

import (
	"fmt"
	"strings"

	"github.com/loam-os/loam/agent/block"
	"github.com/loam-os/loam/agent/printable"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/hint/fault"
)

// Reading is what a disk says of itself.
type Reading struct {
	// Name is the kernel's, such as nvme0n1.
	Name string
	// Model and Serial are the disk's own text.
	Model, Serial string
	// Fails are the reasons for which the disk says that it fails.
	Fails []string
	// Used is how many percent of the life that it is made for are over; it may
	// be above 100. Spare is how many percent of its spare blocks are left. Both
	// are nil if the disk does not say.
	Used, Spare *int
	// Unreadable is how many blocks it could not read.
	Unreadable int64
	// Hours is how long it has been on, Celsius its temperature; both are 0 if
	// the disk does not say.
	Hours   int64
	Celsius int
}

// wornFrom is the percentage of its life from which on a disk is worn.
const wornFrom = 90

// longestName is the longest text of a disk that is shown, in bytes.
const longestName = 64

// decide returns what is known of a disk.
func decide(r Reading) status.Disk {
	d := status.Disk{
		Name:       r.Name,
		Model:      printable.Line(r.Model, longestName),
		Serial:     printable.Line(r.Serial, longestName),
		Used:       r.Used,
		Spare:      r.Spare,
		Unreadable: r.Unreadable,
		Hours:      r.Hours,
		Celsius:    r.Celsius,
	}

	switch {
	case len(r.Fails) > 0:
		d.Code = fault.DiskFailing
		d.Problem = fmt.Sprintf("%s fails: %s", describe(d), strings.Join(r.Fails, ", "))
		d.Hint = "copy what is only on it, and replace it soon"
	case r.Used != nil && *r.Used >= wornFrom:
		d.Code = fault.DiskWorn
		d.Problem = fmt.Sprintf("%s is worn: %d %% of the writes that it is made for are used",
			describe(d), *r.Used)
		d.Hint = "plan to replace it"
	}
	if d.Hint != "" {
		d.Hint += "; `smartctl -a " + block.Node(d.Name) + "` shows all that it says"
	}
	return d
}

// describe names a disk as its label does.
func describe(d status.Disk) string {
	text := "the disk " + d.Name
	switch {
	case d.Model != "" && d.Serial != "":
		text += fmt.Sprintf(" (%s, serial number %s)", d.Model, d.Serial)
	case d.Model != "":
		text += fmt.Sprintf(" (%s)", d.Model)
	}
	return text
}
