package disk

import (
	"bytes"
	"fmt"
	"io/fs"

	"go.uber.org/zap"

	"github.com/loam-os/loam/firmware/authenticode"
	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/firmware/loader"
	"github.com/loam-os/loam/firmware/secureboot"
	"github.com/loam-os/loam/firmware/uki"
)

// Loader is the boot loader on the ESP.
type Loader struct {
	ESP *ESP
	// Arch is the machine's architecture, as Go names it.
	Arch string
	// Sys is sysfs, for what the firmware starts.
	Sys fs.FS
	Log *zap.Logger
}

// Renew replaces an older loader with the running system's own: its content is
// complete on the disk before one write of one sector makes it the content of
// the file. Any other program stays, and so does a loader if the firmware would
// not start its successor. running is the entry of the running system, nil
// without.
func (l Loader) Renew(own []byte, running *Entry) error {
	version, err := loader.Version(bytes.NewReader(own))
	if err != nil {
		return fmt.Errorf("of the running system: %w", err)
	}

	path := loader.Path(l.Arch)
	r, err := l.ESP.Open(path)
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

	own, err = l.signed(own, running)
	if err == nil {
		err = l.starts(own)
	}

	if err != nil {
		return fmt.Errorf("of the running system: %w", err)
	}

	l.Log.Info("renew the boot loader", zap.String("from", there), zap.String("to", version))
	if err := l.ESP.Reclaim(); err != nil {
		return err
	}

	return l.ESP.WriteFile(path, own)
}

// signed returns the loader with the signature that the UKI of an entry has for
// it, if it has one.
func (l Loader) signed(own []byte, running *Entry) ([]byte, error) {
	if running == nil {
		return own, nil
	}

	r, err := l.ESP.Open(running.Path())
	if err != nil {
		return nil, err
	}

	signature, err := uki.ReadSection(r, uki.LoaderSignature)
	if err != nil { // The build is not signed.
		return own, nil
	}

	return authenticode.Attach(own, signature)
}

// starts returns why the firmware would not start a program.
func (l Loader) starts(program []byte) error {
	by, err := secureboot.Observe(l.Sys)
	if err != nil || !by.On {
		return err
	}
	im, err := authenticode.Read(bytes.NewReader(program), int64(len(program)))
	if err != nil {
		return err
	}
	return by.Check(im)
}
