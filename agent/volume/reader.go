package volume

import (
	"bytes"
	"io"
	"slices"
)

// chunk is how many bytes of a device are read at once.
const chunk = 16 * kib

// maxFailed is how many reads of a device may fail before no more are tried.
// Each can take the kernel half a minute, and one is enough not to call the
// device empty.
const maxFailed = 3

// reader reads a device of size bytes in chunks, each of them once.
type reader struct {
	device io.ReaderAt
	size   int64
	chunks map[int64][]byte // by their start; nil if a chunk cannot be read
	failed []int64
	// zeros is shared by all chunks of zeros.
	zeros, scratch []byte
}

func newReader(device io.ReaderAt, size int64) *reader {
	return &reader{
		device:  device,
		size:    size,
		chunks:  map[int64][]byte{},
		zeros:   make([]byte, chunk),
		scratch: make([]byte, chunk),
	}
}

// read returns n bytes at offset, at most a chunk. ok is false if the device
// has no such bytes, or cannot read them. The caller must not change the
// result.
func (r *reader) read(offset int64, n int) (b []byte, ok bool) {
	if offset < 0 || offset > r.size-int64(n) {
		return nil, false
	}

	start := offset - offset%chunk
	first := r.chunk(start)
	if first == nil {
		return nil, false
	}

	first = first[offset-start:]
	if n <= len(first) {
		return first[:n], true
	}

	rest := r.chunk(start + chunk)
	if rest == nil {
		return nil, false
	}

	return slices.Concat(first, rest[:n-len(first)]), true
}

// chunk returns the chunk at start, which is within the device; nil if it
// cannot be read.
func (r *reader) chunk(start int64) []byte {
	if b, known := r.chunks[start]; known || len(r.failed) == maxFailed {
		return b
	}

	b := r.scratch[:min(chunk, r.size-start)]
	if n, _ := r.device.ReadAt(b, start); n < len(b) {
		r.failed = append(r.failed, start)
		r.chunks[start] = nil
		return nil
	}

	if zeros := r.zeros[:len(b)]; bytes.Equal(b, zeros) {
		r.chunks[start] = zeros
	} else {
		r.chunks[start] = slices.Clone(b)
	}

	return r.chunks[start]
}
