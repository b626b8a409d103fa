package disk

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"

	"go.uber.org/zap"

	"github.com/loam-os/loam/firmware/bootdir"
	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/firmware/loader"
)

// Recovery is the recovery entry: a copy of the UKI of the system that has
// proved itself last.
type Recovery struct {
	ESP *ESP
	Log *zap.Logger
}

// RootHash returns the root hash of the system that the recovery entry starts,
// "" if the disk has no recovery entry.
func (r Recovery) RootHash() string {
	uki, err := r.ESP.Open(loader.RecoveryUKI)
	if err != nil {
		return ""
	}
	return hashOf(uki)
}

// Renew makes the recovery entry start the running system, given by its root
// hash, which has proved itself and has one of the entries. Until then it
// started the system before, which is still in the other slot. A disk without a
// recovery entry gets none.
func (r Recovery) Renew(running string, all []Entry) error {
	switch uki, err := r.ESP.Open(loader.RecoveryUKI); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && hashOf(uki) == running:
		return nil
	}

	entry := Find(all, running)
	uki, err := r.ESP.Open(entry.Path())
	if err != nil {
		return err
	}

	if err := r.ESP.Reclaim(); err != nil {
		return err
	}

	return r.ESP.Replace(loader.RecoveryUKI, uki, entry.Size)
}

// Restore makes the entry of the running system, given by its root hash, again
// from the recovery entry, with that name, unless the second FAT still knows
// where the directory is. An entry that is damaged keeps its name.
func (r Recovery) Restore(running, name string) error {
	r.ESP.staged = nil // Reclaim frees it.
	reclaimErr := r.ESP.Reclaim()
	all, err := entries(r.ESP.FS)
	if err := cmp.Or(err, reclaimErr); err != nil {
		r.Log.Warn("the directory of boot entries", zap.Error(err))
		if err := bootdir.Renew(r.ESP.FS); err != nil {
			return err
		}
		reclaimErr = r.ESP.Reclaim()
		all = nil
	}

	if reclaimErr != nil || Find(all, running) != nil {
		return reclaimErr
	}

	uki, err := r.ESP.Open(loader.RecoveryUKI)
	if err != nil {
		return err
	}

	if slices.ContainsFunc(all, func(e Entry) bool { return e.File == name }) {
		return r.ESP.Replace(bootentry.Dir+"/"+name, uki, uki.Size())
	}
	if err := r.ESP.stage(uki, uki.Size()); err != nil {
		return err
	}

	return r.ESP.LinkStaged(name)
}
