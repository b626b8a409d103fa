package disk

import (
	"slices"

	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/partitions/fat"
)

// GiveBackTry undoes that the boot loader has counted this boot as a try of the
// running system: the boot said nothing about the system. One write of one sector
// does it. A system that is not on trial has nothing to get back.
func GiveBackTry(esp *fat.FS, rootHash string) error {
	all, err := entries(esp)
	if err != nil {
		return err
	}

	at := slices.IndexFunc(all, func(e Entry) bool {
		return e.RootHash == rootHash && !e.Orphan && e.Counted && e.TriesDone > 0
	})
	if at < 0 {
		return nil
	}

	e := all[at]
	e.TriesLeft++
	e.TriesDone--
	to, err := bootentry.Format(e.Name)
	if err != nil {
		return err
	}
	return esp.Rename(bootentry.Dir, e.File, to, false)
}
