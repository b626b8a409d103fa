package upgrade_test

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/upgrade/disk"
	"github.com/loam-os/loam/partitions/device"
	"github.com/loam-os/loam/test/firmware"
)

const sector = firmware.SectorSize

// Files of the state partition.
const (
	journalFile = "upgrade.json"
	epochFile   = "upgrade-epoch.json"
)

// event is what one flush made durable: sectors, in the order they were
// written, or a file of the state partition.
type event struct {
	writes []firmware.Written
	file   string
	data   []byte // nil: removed
}

// recorder is a disk with its state partition's files. It records the changes
// of both.
type recorder struct {
	*firmware.Recorder
	mu     sync.Mutex // Slots are read while they are written.
	files  map[string][]byte
	events []event
	// lazy drops a flush; nil if none.
	lazy func() bool
	// loses drops a write at an offset; nil if none.
	loses func(off int64) bool
	// full reports whether a record or a UKI that is to be written finds the state
	// partition full; nil if it has room.
	full func() bool
}

func newRecorder(base firmware.Sectors, files map[string][]byte) *recorder {
	all := map[string][]byte{}
	maps.Copy(all, files)
	return &recorder{Recorder: firmware.NewRecorder(base), files: all}
}

func (r *recorder) ReadAt(p []byte, off int64) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Recorder.ReadAt(p, off)
}

func (r *recorder) WriteAt(p []byte, off int64) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.loses != nil && r.loses(off) {
		return len(p), nil
	}
	return r.Recorder.WriteAt(p, off)
}

func (r *recorder) Sync() error {
	r.mu.Lock()
	defer r.mu.Unlock()

	if len(r.Now) == 0 || (r.lazy != nil && r.lazy()) {
		return nil
	}

	r.events = append(r.events, event{writes: r.Now})
	r.Now = nil
	return nil
}

// flush is what a sync of the state partition does: all that was written to the
// disk before is durable, too.
func (r *recorder) flush() {
	lazy := r.lazy
	r.lazy = nil
	_ = r.Sync()
	r.lazy = lazy
}

func (r *recorder) Read(name string) ([]byte, error) {
	if data, ok := r.files[name]; ok {
		return data, nil
	}
	return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
}

func (r *recorder) Write(name string, data []byte) error {
	if r.full != nil && r.full() {
		return fmt.Errorf("write %s: %w", name, unix.ENOSPC)
	}
	r.flush()
	r.files[name] = data
	r.events = append(r.events, event{file: name, data: data})
	return nil
}

func (r *recorder) Remove(name string) error {
	r.flush()
	if _, ok := r.files[name]; ok {
		delete(r.files, name)
		r.events = append(r.events, event{file: name})
	}
	return nil
}

// Scratch implements upgrade.Records: the file may be lost at any time.
func (r *recorder) Scratch(int64) (disk.Closer, error) {
	if r.full != nil && r.full() {
		return nil, fmt.Errorf("make the UKI: %w", unix.ENOSPC)
	}
	return scratch{firmware.NewMemory(nil)}, nil
}

// Free implements upgrade.Records.
func (*recorder) Free() (int64, error) { return 1 << 30, nil }

// section is a partition of a disk.
type section struct {
	r          device.Device
	start, end int64
}

func (s section) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > s.end-s.start {
		return 0, io.ErrUnexpectedEOF
	}
	return s.r.ReadAt(p, s.start+off)
}

func (s section) WriteAt(p []byte, off int64) (int, error) {
	if off < 0 || off+int64(len(p)) > s.end-s.start {
		return 0, fmt.Errorf("write of %d bytes at %d leaves the partition", len(p), off)
	}
	return s.r.WriteAt(p, s.start+off)
}

func (s section) Sync() error { return s.r.Sync() }

func (section) Close() error { return nil }

// scratch is a file of the state partition that may be lost at any time.
type scratch struct{ firmware.Memory }

func (scratch) Close() error { return nil }
