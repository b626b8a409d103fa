package upgrade

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/upgrade/disk"
	"github.com/loam-os/loam/agent/upgrade/records"
	"github.com/loam-os/loam/image/bundle"
)

// Records are the small files of upgrades on the state partition, and the file
// in which a UKI is assembled.
type Records interface {
	records.Store

	// Scratch opens the file for a UKI of that size. It may still have older
	// content.
	Scratch(size int64) (disk.Closer, error)

	// Free returns how many bytes the state partition has left.
	Free() (int64, error)
}

const (
	journalName  = "upgrade.json"
	indexName    = "upgrade-index.json"
	failuresName = "upgrade-failed.json"
	// lastName is the file with the time at which the last upgrade began.
	lastName = "upgrade-last.json"
	// scratchName is the file in which a UKI is assembled.
	scratchName = "upgrade-uki"
)

// ReadIndex returns the index of the upgrade under way.
func ReadIndex(s records.Store) (bundle.Index, error) {
	text, err := s.Read(indexName)
	if err != nil {
		return bundle.Index{}, fmt.Errorf("read the index of the upgrade: %w", err)
	}
	return bundle.Parse(text)
}

// LastBegan returns when the last upgrade began, the zero time if that is not known.
func LastBegan(s records.Store) (at time.Time) {
	_ = records.Load(s, lastName, &at) // The zero time, then.
	return at
}

// Files implements [Records] with files of /var/lib/loam.
type Files struct{ Dir *durable.Dir }

// Read implements [records.Store]; so do Write and Remove.
func (f Files) Read(name string) ([]byte, error) { return fs.ReadFile(f.Dir.Root().FS(), name) }

func (f Files) Write(name string, data []byte) error {
	_, err := f.Dir.WriteFile(name, data, 0o600)
	return err
}

func (f Files) Remove(name string) error { return f.Dir.Remove(name) }

// Free implements [Records].
func (f Files) Free() (int64, error) {
	dir, err := f.Dir.Root().Open(".")
	if err != nil {
		return 0, err
	}
	var s unix.Statfs_t
	err = unix.Fstatfs(int(dir.Fd()), &s)
	return int64(s.Bavail) * s.Bsize, errors.Join(err, dir.Close())
}

// Scratch implements [Records].
func (f Files) Scratch(size int64) (disk.Closer, error) {
	file, err := f.Dir.Root().OpenFile(scratchName, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := file.Truncate(size); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}
