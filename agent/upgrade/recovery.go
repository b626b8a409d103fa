package upgrade

import (
	"errors"
	"io/fs"
	"slices"

	"go.uber.org/zap"

	"github.com/loam-os/loam/firmware/loader"
	"github.com/loam-os/loam/partitions/fat"
)

// recovery is the root hash of the system that the recovery entry starts, "" if there
// is none.
func (u *Upgrader) recovery() string {
	r, err := u.esp.Open(loader.RecoveryUKI)
	if err != nil {
		return ""
	}
	return hashOf(r)
}

// renewRecovery makes the system that has proven itself that of the recovery entry.
// Before, it was the one before, which is still in the other slot.
func (u *Upgrader) renewRecovery(v View) error {
	switch r, err := u.esp.Open(loader.RecoveryUKI); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && hashOf(r) == v.Running.RootHash:
		return nil
	}
	e := find(v, v.Running.RootHash)
	r, err := u.esp.Open(fat.BootDir + "/" + e.File)
	if err == nil {
		err = u.esp.Reclaim()
	}
	if err == nil {
		err = u.esp.Replace(loader.RecoveryUKI, r, e.size)
	}
	return err
}

// restore makes the entry of the running system anew, unless the second FAT still
// knows where the directory is. One that is damaged keeps its name.
func (u *Upgrader) restore(name string) error {
	u.staged = nil // Reclaim frees it.
	reclaimErr := u.esp.Reclaim()
	all, err := entries(u.esp)
	if err != nil {
		u.Log.Warn("the directory of boot entries", zap.Error(err))
		if err := u.esp.RenewBootDir(); err != nil {
			return err
		}
		reclaimErr = u.esp.Reclaim()
	}
	if reclaimErr != nil || find(View{Entries: all}, u.Running.RootHash) != nil {
		return reclaimErr
	}
	r, err := u.esp.Open(loader.RecoveryUKI)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(all, func(e Entry) bool { return e.File == name }) {
		return u.esp.Replace(fat.BootDir+"/"+name, r, r.Size())
	}
	chain, err := u.esp.Stage(r, r.Size())
	if err != nil {
		return err
	}
	return u.esp.LinkCounted(fat.BootDir, name, chain, r.Size())
}
