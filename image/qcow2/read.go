package qcow2

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/loam-os/loam/hint"
)

// Reader reads the disk in a qcow2 file of version 2 or 3, whoever has written
// it, with or without compression. Encrypted ones, and those with a backing
// file or with data in another file, it refuses.
type Reader struct {
	r           io.ReaderAt
	size        int64
	bits        uint
	l1          []uint64
	compression byte
}

// Bits of version 3's incompatible features. Dirty and corrupt say that
// refcounts are not to be relied on, which reading does not.
const (
	dirty           = 1
	corrupt         = 2
	externalData    = 4
	compressionType = 8
	extendedL2      = 16
)

// IsImage reports whether a file begins as one of this format does.
func IsImage(start []byte) bool { return bytes.HasPrefix(start, []byte(magic)) }

// NewReader reads the header and the first table.
func NewReader(r io.ReaderAt) (*Reader, error) {
	b := make([]byte, headerSize+1)
	be := binary.BigEndian
	if _, err := r.ReadAt(b, 0); err != nil {
		return nil, fmt.Errorf("qcow2: header: %w", err)
	}

	version := be.Uint32(b[4:])
	features := uint64(0)
	q := &Reader{r: r, size: int64(be.Uint64(b[24:])), bits: uint(be.Uint32(b[20:]))}
	if version == 3 {
		features = be.Uint64(b[72:])
		if be.Uint32(b[100:]) > headerSize {
			q.compression = b[headerSize]
		}
	}

	l1Entries := int64(be.Uint32(b[36:]))
	l1At := int64(be.Uint64(b[40:]))
	switch {
	case !IsImage(b) || (version != 2 && version != 3):
		return nil, fmt.Errorf("qcow2: magic %q, version %d", b[:4], version)
	case be.Uint64(b[8:]) != 0:
		return nil, hint.With(errors.New("qcow2: it is a layer over a backing file"),
			"qemu-img convert -O raw makes one file of both")
	case be.Uint32(b[32:]) != 0:
		return nil, errors.New("qcow2: it is encrypted")
	case features&^(dirty|corrupt|compressionType) != 0:
		return nil, hint.With(fmt.Errorf("qcow2: incompatible features %#x", features),
			"qemu-img convert -O raw")
	case q.bits < 9 || q.bits > 21 || q.size < 0 || q.size > maxSize || l1At < 0:
		return nil, fmt.Errorf("qcow2: clusters of 1<<%d bytes, disk of %d bytes", q.bits, q.size)
	case l1Entries < divUp(q.size, q.mapped()) || l1Entries*8 > 32<<20:
		// QEMU's own limit of the table
		return nil, fmt.Errorf("qcow2: table of %d entries for a disk of %d bytes",
			l1Entries, q.size)
	}

	table := make([]byte, l1Entries*8)
	if _, err := r.ReadAt(table, l1At); err != nil {
		return nil, fmt.Errorf("qcow2: table: %w", err)
	}

	for i := range l1Entries {
		q.l1 = append(q.l1, be.Uint64(table[8*i:]))
	}

	return q, nil
}

// Size is the size of the disk in bytes.
func (q *Reader) Size() int64 { return q.size }

// mapped is how much of the disk one L2 table maps.
func (q *Reader) mapped() int64 { return 1 << (q.bits + q.bits - 3) }

// ReadAt is io.ReaderAt, of the disk.
func (q *Reader) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, errors.New("qcow2: negative offset")
	}

	for n < len(p) && off < q.size {
		within := off & (1<<q.bits - 1)
		some := p[n : n+int(min(int64(len(p)-n), 1<<q.bits-within, q.size-off))]
		err := q.readCluster(some, off, within)
		if errors.Is(err, io.EOF) { // of the file, not of the disk
			err = io.ErrUnexpectedEOF
		}

		if err != nil {
			return n, fmt.Errorf("qcow2: at %d of the disk: %w", off, err)
		}

		n += len(some)
		off += int64(len(some))
	}

	if n < len(p) {
		return n, io.EOF
	}

	return n, nil
}

// Bits of table entries.
const (
	offsetMask   = 1<<56 - 1<<9
	isCompressed = 1 << 62
	isZero       = 1
)

// readCluster reads a range within one cluster.
func (q *Reader) readCluster(p []byte, off, within int64) error {
	clear(p)
	table := q.l1[off/q.mapped()] & offsetMask
	if table == 0 {
		return nil
	}

	var b [8]byte
	if _, err := q.r.ReadAt(b[:], int64(table)+off%q.mapped()>>q.bits*8); err != nil {
		return err
	}

	entry := binary.BigEndian.Uint64(b[:])
	switch {
	case entry&isCompressed != 0:
		plain, err := q.decompress(entry)
		copy(p, plain[min(within, int64(len(plain))):])
		return err
	case entry&isZero != 0 || entry&offsetMask == 0:
		return nil
	}

	n, err := q.r.ReadAt(p, int64(entry&offsetMask)+within)
	if n < len(p) { // The file may end with it.
		return err
	}

	return nil
}

// decompress reads a compressed cluster: its offset is not aligned, its length
// is given in sectors of 512 bytes from the first that it touches.
func (q *Reader) decompress(entry uint64) ([]byte, error) {
	split := 62 - (q.bits - 8)
	at := int64(entry & (1<<split - 1))
	n := (int64(entry>>split&(1<<(q.bits-8)-1))+1)*512 - at%512
	packed := make([]byte, n)
	got, err := q.r.ReadAt(packed, at)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}

	var r io.Reader = flate.NewReader(bytes.NewReader(packed[:got]))
	if q.compression == 1 {
		z, err := zstd.NewReader(bytes.NewReader(packed[:got]), zstd.WithDecoderConcurrency(1),
			zstd.WithDecoderMaxMemory(8<<20))
		if err != nil {
			return nil, err
		}
		defer z.Close()
		r = z
	}

	plain := make([]byte, 1<<q.bits)
	_, err = io.ReadFull(r, plain)
	return plain, err
}
