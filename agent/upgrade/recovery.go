package upgrade

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

// recovery is the recovery entry: a copy of the UKI of the system that has
// proved itself last.
type recovery struct {
	esp *esp
	log *zap.Logger
}

// rootHash returns the root hash of the system that the recovery entry starts,
// "" if the disk has no recovery entry.
func (r recovery) rootHash() string {
	uki, err := r.esp.Open(loader.RecoveryUKI)
	if err != nil {
		return ""
	}
	return hashOf(uki)
}

// renew makes the recovery entry start the running system, which has that root
// hash, an entry of all, and has proved itself. Until then it started the system
// before, which is still in the other slot. A disk without a recovery entry gets
// none.
func (r recovery) renew(running string, all []Entry) error {
	switch uki, err := r.esp.Open(loader.RecoveryUKI); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && hashOf(uki) == running:
		return nil
	}

	entry := findEntry(all, running)
	uki, err := r.esp.Open(entry.Path())
	if err != nil {
		return err
	}

	if err := r.esp.Reclaim(); err != nil {
		return err
	}

	return r.esp.Replace(loader.RecoveryUKI, uki, entry.Size)
}

// restore makes an entry of that name of the running system again from the
// recovery entry, unless the second FAT still knows where the directory is. An
// entry that is damaged keeps its name.
func (r recovery) restore(running, name string) error {
	r.esp.staged = nil // Reclaim frees it.
	reclaimErr := r.esp.Reclaim()
	all, err := entries(r.esp.FS)
	if err := cmp.Or(err, reclaimErr); err != nil {
		r.log.Warn("the directory of boot entries", zap.Error(err))
		if err := bootdir.Renew(r.esp.FS); err != nil {
			return err
		}
		reclaimErr = r.esp.Reclaim()
		all = nil
	}

	if reclaimErr != nil || findEntry(all, running) != nil {
		return reclaimErr
	}

	uki, err := r.esp.Open(loader.RecoveryUKI)
	if err != nil {
		return err
	}

	if slices.ContainsFunc(all, func(e Entry) bool { return e.File == name }) {
		return r.esp.Replace(bootentry.Dir+"/"+name, uki, uki.Size())
	}
	if err := r.esp.stage(uki, uki.Size()); err != nil {
		return err
	}

	return r.esp.link(name)
}
