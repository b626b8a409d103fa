package upgrade

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"

	"go.uber.org/zap"

	"github.com/loam-os/loam/firmware/authenticode"
	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/firmware/loader"
	"github.com/loam-os/loam/firmware/secureboot"
	"github.com/loam-os/loam/firmware/uki"
	"github.com/loam-os/loam/partitions/fat"
)

// renewBoot makes what is on the ESP beside boot entries that of the system that
// has proven itself. That it cannot is no reason against the system.
func (u *Upgrader) renewBoot(v View) {
	if err := u.renewLoader(v); err != nil {
		u.Log.Warn("renew the boot loader", zap.Error(err))
	}
	if err := u.renewRecovery(v); err != nil {
		u.Log.Warn("renew the recovery entry", zap.Error(err))
	}
}

// renewLoader puts the loader of the running system in the place of an older one:
// the content is whole on the disk before one write of one sector makes it that of
// the file. Any other program stays, and so does one if the firmware would not start
// its successor.
func (u *Upgrader) renewLoader(v View) error {
	if u.Loader == nil {
		return nil
	}
	own, err := u.Loader()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	version, err := loader.Version(bytes.NewReader(own))
	if err != nil {
		return fmt.Errorf("of the running system: %w", err)
	}
	path := loader.Path(u.Disk.Arch)
	r, err := u.esp.Open(path)
	if err != nil {
		return err
	}
	there, err := loader.Version(r)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if bootentry.CompareVersions(version, there) <= 0 {
		return nil
	}
	if own, err = u.signedLoader(v, own); err == nil {
		err = u.startsLoader(own)
	}
	if err != nil {
		return fmt.Errorf("of the running system: %w", err)
	}
	u.Log.Info("renew the boot loader", zap.String("from", there), zap.String("to", version))
	if err := u.esp.Reclaim(); err != nil {
		return err
	}
	return u.esp.WriteFile(path, own)
}

// signedLoader is the loader of the running system with the signature that its UKI has for it, if that has one.
func (u *Upgrader) signedLoader(v View, own []byte) ([]byte, error) {
	e := find(v, v.Running.RootHash)
	if e == nil {
		return own, nil
	}
	r, err := u.esp.Open(fat.BootDir + "/" + e.File)
	if err != nil {
		return nil, err
	}
	signature, err := uki.ReadSection(r, uki.LoaderSignature)
	if err != nil { // It is of a build that is not signed.
		return own, nil
	}
	return authenticode.Attach(own, signature)
}

// startsLoader is nil for a program that the firmware starts.
func (u *Upgrader) startsLoader(program []byte) error {
	by, err := secureboot.Observe(u.Sys)
	if err != nil || !by.On {
		return err
	}
	im, err := authenticode.Read(bytes.NewReader(program), int64(len(program)))
	if err != nil {
		return err
	}
	return by.Check(im)
}
