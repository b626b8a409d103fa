package device

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
)

// pageSize is the unit in which a Memory takes memory.
const pageSize = 4096

// Memory is a Device for tests: zeros until they are written, and only what was
// written takes memory. It is not for use by several goroutines.
type Memory struct {
	size  int64
	pages map[int64][]byte // by their number
}

// NewMemory returns a device of size bytes.
func NewMemory(size int64) *Memory {
	return &Memory{size: size, pages: map[int64][]byte{}}
}

// Size returns the size in bytes.
func (m *Memory) Size() int64 { return m.size }

// Clone returns a copy, which changes independently.
func (m *Memory) Clone() *Memory {
	pages := maps.Clone(m.pages)
	for number, page := range pages {
		pages[number] = bytes.Clone(page)
	}
	return &Memory{size: m.size, pages: pages}
}

// ReadAt implements [io.ReaderAt]. A read beyond the end reads nothing.
func (m *Memory) ReadAt(p []byte, off int64) (int, error) {
	return m.each(p, off, func(number, start int64, part []byte) {
		if page := m.pages[number]; page != nil {
			copy(part, page[start:])
		} else {
			clear(part)
		}
	})
}

// WriteAt implements [io.WriterAt]. A write beyond the end writes nothing.
func (m *Memory) WriteAt(p []byte, off int64) (int, error) {
	return m.each(p, off, func(number, start int64, part []byte) {
		if m.pages[number] == nil {
			m.pages[number] = make([]byte, pageSize)
		}
		copy(m.pages[number][start:], part)
	})
}

// Sync does nothing.
func (m *Memory) Sync() error { return nil }

// each calls do for the part of p in each page.
func (m *Memory) each(p []byte, off int64, do func(number, start int64, part []byte)) (int, error) {
	if off < 0 || off+int64(len(p)) > m.size {
		return 0, io.ErrUnexpectedEOF
	}

	for n := 0; n < len(p); {
		start := (off + int64(n)) % pageSize
		part := p[n:min(len(p), n+int(pageSize-start))]
		do((off+int64(n))/pageSize, start, part)
		n += len(part)
	}

	return len(p), nil
}

// WriteFile creates a sparse file with the content of the device, for other
// tools to read.
func (m *Memory) WriteFile(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()

	if err := f.Truncate(m.size); err != nil {
		return err
	}

	for number, page := range m.pages {
		at := number * pageSize
		if _, err := f.WriteAt(page[:min(pageSize, m.size-at)], at); err != nil {
			return err
		}
	}

	return f.Close()
}

// ReadFile returns a device with the content of a file.
func ReadFile(name string) (*Memory, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}

	m := NewMemory(int64(len(data)))
	for at := 0; at < len(data); at += pageSize {
		page := data[at:min(len(data), at+pageSize)]
		if bytes.Count(page, []byte{0}) == len(page) {
			continue
		}
		if _, err := m.WriteAt(page, int64(at)); err != nil {
			return nil, fmt.Errorf("copy %s: %w", name, err)
		}
	}

	return m, nil
}
