// Package bootdir edits the directory of boot entries on an EFI system
// partition, \EFI\Linux, so that neither a power cut nor the firmware that
// counts boot tries loses an entry. It holds the rules of this one directory;
// partitions/fat edits the file system.
//
// The rules are:
//   - each name takes four directory slots (firmware/bootentry), so that a
//     sector has a whole number of them;
//   - an entry whose tries are counted is the last of the directory and the
//     first in its sector: see [Link];
//   - the space behind the last entry is free, because firmware only appends:
//     [fat.FS.Reclaim] of a file system that [Open] has opened gives it back.
package bootdir

import (
	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/partitions/device"
	"github.com/loam-os/loam/partitions/fat"
)

// Open opens an EFI system partition to edit its boot entries: see [fat.Open].
func Open(d device.Device, size int64, blockSize int) (*fat.FS, error) {
	entries := fat.Uniform{Dir: bootentry.Dir, Slots: bootentry.Slots}
	return fat.Open(d, size, blockSize, entries)
}

// Link names the staged content as a boot entry whose tries the firmware
// counts. EDK2 renames an entry by taking its set away and adding another at
// the end of the directory, in one flush: so the entry becomes the last of the
// directory and the first in its sector, which has room for three more. Then
// each of three counts is one write of one sector, and a power cut leaves the
// old name or the new one. If they lay in two sectors, both could stay, and a
// loader that finds the new name taken boots without counting, for ever.
func Link(esp *fat.FS, name string, c fat.Chain, size int64) error {
	return esp.LinkLast(bootentry.Dir, name, c, size)
}

// AddName gives the content of an entry a second name, when its long name is
// incomplete, so that the entry can be removed. Both share their clusters until
// one is removed.
func AddName(esp *fat.FS, from, to string) error {
	return esp.AddNameLast(bootentry.Dir, from, to)
}

// Room returns how many entries Link can add, one after the other, if none is
// removed from the end of the directory.
func Room(esp *fat.FS) (int, error) {
	return esp.RoomLast(bootentry.Dir)
}

// Renew replaces an unreadable directory by an empty one, with one write of one
// sector. [fat.FS.Reclaim] frees the clusters that the old one referred to.
func Renew(esp *fat.FS) error {
	return esp.RenewDir(bootentry.Dir, bootentry.DirSize, bootentry.Fillers()...)
}
