package upgrade

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
)

const sector = 512

// sectors are the content of a disk that reads as zero elsewhere.
type sectors map[int64][]byte

// memory is a disk of base, with what differs from it.
type memory struct {
	base, over sectors
}

func (m memory) sector(n int64) []byte {
	if b, ok := m.over[n]; ok {
		return b
	}
	return m.base[n]
}

func (m memory) ReadAt(p []byte, off int64) (int, error) {
	for done := 0; done < len(p); {
		n, at := (off+int64(done))/sector, int((off+int64(done))%sector)
		size := min(sector-at, len(p)-done)
		if b := m.sector(n); b != nil {
			copy(p[done:done+size], b[at:])
		} else {
			clear(p[done : done+size])
		}
		done += size
	}
	return len(p), nil
}

func (m memory) WriteAt(p []byte, off int64) (int, error) {
	for done := 0; done < len(p); {
		n, at := (off+int64(done))/sector, int((off+int64(done))%sector)
		size := min(sector-at, len(p)-done)
		b := make([]byte, sector)
		copy(b, m.sector(n))
		copy(b[at:], p[done:done+size])
		m.over[n] = b
		done += size
	}
	return len(p), nil
}

func (memory) Sync() error { return nil }

// event is what one flush made durable: sectors, in the order they were written, or
// a file of the state partition.
type event struct {
	writes []written
	file   string
	data   []byte // nil: removed
}

type written struct {
	sector int64
	data   []byte
}

// recorder is a disk with its state partition's files, which keeps what is done
// to both.
type recorder struct {
	memory
	files   map[string][]byte
	events  []event
	pending []written
	// lazy drops a flush; nil for none.
	lazy func() bool
}

func newRecorder(base sectors, files map[string][]byte) *recorder {
	all := map[string][]byte{}
	maps.Copy(all, files)
	return &recorder{memory: memory{base, sectors{}}, files: all}
}

func (r *recorder) WriteAt(p []byte, off int64) (int, error) {
	before := map[int64][]byte{}
	for n := off / sector; n*sector < off+int64(len(p)); n++ {
		before[n] = r.sector(n)
	}
	if _, err := r.memory.WriteAt(p, off); err != nil {
		return 0, err
	}
	for _, n := range slices.Sorted(maps.Keys(before)) {
		if now := r.sector(n); !bytes.Equal(now, before[n]) {
			r.pending = append(r.pending, written{n, now})
		}
	}
	return len(p), nil
}

func (r *recorder) Sync() error {
	if len(r.pending) == 0 || r.lazy != nil && r.lazy() {
		return nil
	}
	r.events = append(r.events, event{writes: r.pending})
	r.pending = nil
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

// section is a partition of a recorder.
type section struct {
	r          *recorder
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
type scratch struct{ memory }

func (scratch) Close() error { return nil }
