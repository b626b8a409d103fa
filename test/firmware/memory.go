package firmware

import (
	"bytes"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/partitions/device"
)

// Sectors are what a disk has, by the number of the sector; elsewhere it reads
// as zero.
type Sectors map[int64][]byte

// Memory is a disk that has Base, with what differs from it in Over.
type Memory struct {
	Base, Over Sectors
}

// NewMemory is a disk of that content, which is not changed.
func NewMemory(base Sectors) Memory { return Memory{base, Sectors{}} }

// Sector returns sector n; nil stands for zeros.
func (m Memory) Sector(n int64) []byte {
	if b, ok := m.Over[n]; ok {
		return b
	}
	return m.Base[n]
}

// Flat is all that the disk has.
func (m Memory) Flat() Sectors {
	all := maps.Clone(m.Base)
	if all == nil {
		all = Sectors{}
	}
	maps.Copy(all, m.Over)
	return all
}

// ReadAt reads bytes from anywhere: the disk has no end.
func (m Memory) ReadAt(p []byte, off int64) (int, error) {
	for done := 0; done < len(p); {
		n := (off + int64(done)) / SectorSize
		at := int((off + int64(done)) % SectorSize)
		part := p[done:min(len(p), done+SectorSize-at)]
		if b := m.Sector(n); b != nil {
			copy(part, b[at:])
		} else {
			clear(part)
		}

		done += len(part)
	}
	return len(p), nil
}

// WriteAt changes Over.
func (m Memory) WriteAt(p []byte, off int64) (int, error) {
	for done := 0; done < len(p); {
		n := (off + int64(done)) / SectorSize
		at := int((off + int64(done)) % SectorSize)
		b := make([]byte, SectorSize)
		copy(b, m.Sector(n))
		done += copy(b[at:], p[done:])
		m.Over[n] = b
	}
	return len(p), nil
}

// Sync does nothing.
func (Memory) Sync() error { return nil }

// Written is a sector as a write left it.
type Written struct {
	Sector int64
	Data   []byte
}

// Recorder is a disk that records its writes, by flushes.
type Recorder struct {
	Memory
	Epochs [][]Written // each ends with a flush
	Now    []Written   // since the last one
}

// NewRecorder is a disk of that content, which is not changed.
func NewRecorder(base Sectors) *Recorder { return &Recorder{Memory: NewMemory(base)} }

// WriteAt keeps the sectors that the write changes, in order.
func (r *Recorder) WriteAt(p []byte, off int64) (int, error) {
	before := Sectors{}
	for n := off / SectorSize; n*SectorSize < off+int64(len(p)); n++ {
		before[n] = r.Sector(n)
	}

	done, err := r.Memory.WriteAt(p, off)
	for _, n := range slices.Sorted(maps.Keys(before)) {
		if now := r.Sector(n); !equal(now, before[n]) {
			r.Now = append(r.Now, Written{n, now})
		}
	}

	return done, err
}

// equal compares sectors; nil is zeros.
func equal(a, b []byte) bool {
	zeros := make([]byte, SectorSize)
	if a == nil {
		a = zeros
	}
	if b == nil {
		b = zeros
	}
	return bytes.Equal(a, b)
}

// Sync makes what was written an epoch, if there is anything.
func (r *Recorder) Sync() error {
	if len(r.Now) > 0 {
		r.Epochs = append(r.Epochs, r.Now)
		r.Now = nil
	}
	return nil
}

// BadEnd is a disk whose sectors from the byte From on can be neither read nor
// written.
type BadEnd struct {
	device.Device
	From int64
}

// ReadAt implements [io.ReaderAt].
func (b BadEnd) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > b.From {
		return 0, unix.EIO
	}
	return b.Device.ReadAt(p, off)
}

// WriteAt implements [io.WriterAt].
func (b BadEnd) WriteAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > b.From {
		return 0, unix.EIO
	}
	return b.Device.WriteAt(p, off)
}
