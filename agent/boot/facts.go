package boot

import (
	"github.com/google/uuid"

	"github.com/loam-os/loam/partitions/gpt"
	"github.com/loam-os/loam/partitions/verity"
)

// Facts are all that Decide knows of the machine.
type Facts struct {
	// Arch is the machine's architecture as Go names it: amd64, arm64.
	Arch string `json:"arch"`

	// Cmdline is the kernel command line, as in /proc/cmdline.
	Cmdline string `json:"cmdline"`

	// LoaderPartition is the partition UUID of the ESP that the loader came
	// from (EFI variable LoaderDevicePartUUID); the nil UUID if it is not told.
	LoaderPartition uuid.UUID `json:"loaderPartition"`
	Disks           []Disk    `json:"disks"`
}

// Disk is a whole block device. Size and SectorSize are in bytes.
type Disk struct {
	// Device is its node, /dev/vda.
	Device     string `json:"device"`
	Size       int64  `json:"size"`
	SectorSize int    `json:"sectorSize"`

	// Removable also means on a USB port.
	Removable bool `json:"removable,omitempty"`
	ReadOnly  bool `json:"readOnly,omitempty"`

	// Table is the partition table; nil, and Problem says why, if there is
	// none.
	Table   *gpt.Table `json:"table,omitempty"`
	Problem string     `json:"problem,omitempty"`

	// Damage says what is wrong with one of the table's two copies; "" if
	// nothing.
	Damage string `json:"damage,omitempty"`

	// Contents tells of the partitions that Decide asks about, by index from 1.
	Contents map[int]Content `json:"contents,omitempty"`
}

// Content is what a partition holds.
type Content struct {
	// Device is the partition's node, /dev/vda3; "" while the kernel has none.
	Device string `json:"device,omitempty"`
	// Verity is the superblock of a verity partition.
	Verity *verity.Superblock `json:"verity,omitempty"`
	// Filesystem tells what a state partition holds.
	Filesystem Filesystem `json:"filesystem,omitempty"`
	// FilesystemSize is the size of an ext4 file system in bytes.
	FilesystemSize int64 `json:"filesystemSize,omitempty"`
	// Problem says why the content could not be read.
	Problem string `json:"problem,omitempty"`
}

// Filesystem is what the start of a state partition looks like.
type Filesystem string

const (
	// FilesystemEmpty is nothing but zeros, or our mark that asks to be
	// formatted.
	FilesystemEmpty Filesystem = "empty"
	// FilesystemTorn is FilesystemExt4 whose superblock a power cut has torn.
	FilesystemTorn Filesystem = "torn"
	// FilesystemExt4 is ours, or made by somebody with the same wish.
	FilesystemExt4 Filesystem = "ext4"
	// FilesystemOther is data that Loam does not know, and so does not touch.
	FilesystemOther Filesystem = "other"
)
