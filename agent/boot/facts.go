package boot

import (
	"github.com/google/uuid"

	"github.com/loam-os/loam/agent/crypt"
	"github.com/loam-os/loam/firmware/loadoption"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/gpt"
	"github.com/loam-os/loam/partitions/verity"
)

// Facts are all that Decide knows about the machine.
type Facts struct {
	// Arch is the machine's architecture as Go names it: amd64, arm64.
	Arch string `json:"arch"`

	// Cmdline is the kernel command line, as in /proc/cmdline.
	Cmdline string `json:"cmdline"`

	// LoaderPartition is the partition UUID of the ESP that the loader came
	// from (EFI variable LoaderDevicePartUUID), or the nil UUID if unset.
	LoaderPartition uuid.UUID `json:"loaderPartition"`

	// BootOption is what the firmware started (EFI variables BootCurrent and
	// Boot####), or the zero Location if unknown.
	BootOption loadoption.Location `json:"bootOption,omitzero"`

	// Counted means that the boot loader counts the tries of this system (EFI
	// variable LoaderBootCountPath): it has not proven itself.
	Counted bool `json:"counted,omitempty"`

	// Identity is random. A disk gets it that has none of its own.
	Identity partitions.Identity `json:"identity,omitzero"`
	Disks    []Disk              `json:"disks"`
}

// Disk is a whole block device. Size and SectorSize are in bytes.
type Disk struct {
	// Device is its node, such as /dev/vda.
	Device string `json:"device"`

	// Hardware is the way to it, as in BootOption; nil if unknown.
	Hardware []string `json:"hardware,omitempty"`

	Size       int64 `json:"size"`
	SectorSize int   `json:"sectorSize"`

	// Removable is also true for a disk on USB.
	Removable bool `json:"removable,omitempty"`
	ReadOnly  bool `json:"readOnly,omitempty"`

	// Table is the partition table; nil if absent, and Problem says why.
	Table   *gpt.Table `json:"table,omitempty"`
	Problem string     `json:"problem,omitempty"`

	// Damage describes the damage of one of the table's two copies; "" for
	// none.
	Damage string `json:"damage,omitempty"`

	// Contents describes the partitions that Decide needs, by index from 1.
	Contents map[int]Content `json:"contents,omitempty"`
}

// Content is what a partition holds.
type Content struct {
	// Device is the partition's node, such as /dev/vda3; "" until the kernel
	// has one.
	Device string `json:"device,omitempty"`
	// Verity is the superblock of a verity partition.
	Verity *verity.Superblock `json:"verity,omitempty"`
	// Filesystem says what a state partition holds.
	Filesystem Filesystem `json:"filesystem,omitempty"`
	// Mark is the mark of a partition that asks to be formatted.
	Mark crypt.Mark `json:"mark,omitzero"`
	// FilesystemSize is the size of an ext4 file system in bytes.
	FilesystemSize int64 `json:"filesystemSize,omitempty"`
	// Errors means that the kernel has found errors in that file system.
	Errors bool `json:"errors,omitempty"`

	// NoJournal means that it has lost its journal.
	NoJournal bool `json:"noJournal,omitempty"`
	// Problem says why the content could not be read.
	Problem string `json:"problem,omitempty"`
}

// Filesystem is what the start of a state partition looks like.
type Filesystem string

const (
	// FilesystemEmpty is nothing but zeros, or our mark that asks to be
	// formatted.
	FilesystemEmpty Filesystem = "empty"
	// FilesystemCorrupt is FilesystemExt4 with a superblock that a power cut
	// has corrupted, and a copy that can replace it.
	FilesystemCorrupt Filesystem = "corrupt"
	// FilesystemDamaged is ext4 without a superblock that can be read. Perhaps
	// e2fsck can repair it.
	FilesystemDamaged Filesystem = "damaged"
	// FilesystemExt4 is any ext4 file system, made by Loam or by the operator.
	FilesystemExt4 Filesystem = "ext4"
	// FilesystemLUKS is a container that has to be opened.
	FilesystemLUKS Filesystem = "luks"
	// FilesystemOther is data that Loam does not know, and so does not touch.
	FilesystemOther Filesystem = "other"
)
