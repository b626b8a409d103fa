package disk

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/hint"
)

// directAlign is the alignment that O_DIRECT wants for memory, offsets and
// lengths, on every disk that the kernel supports.
const directAlign = 4096

// directBuffer is how much is read or written at once.
const directBuffer = 1 << 20

// direct is a block device that is read and written without the page cache
// (open(2), O_DIRECT), so that what is read is what the disk has.
type direct struct {
	f     *os.File
	align int64

	mu  sync.Mutex
	buf []byte
}

// openDirect opens a block device. flags may have O_EXCL: then it is an error
// if the kernel uses the device, as for a file system or a mapping.
func openDirect(name string, flags int, sectorSize int) (*direct, error) {
	f, err := os.OpenFile(name, flags|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EBUSY) {
		return nil, hint.With(err, "it is mounted, or part of the running system")
	}

	if err != nil {
		return nil, err
	}

	buf, err := unix.Mmap(-1, 0, directBuffer, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("memory for %s: %w", name, err), f.Close())
	}

	return &direct{f: f, align: int64(sectorSize), buf: buf}, nil
}

// span is the aligned bytes around [off, off+n).
func (d *direct) span(off int64, n int) (start, end int64) {
	start = off - off%d.align
	end = off + int64(n)
	if rest := end % d.align; rest > 0 {
		end += d.align - rest
	}
	return start, end
}

// aligned reports whether the kernel takes p as it is.
func aligned(p []byte, off int64) bool {
	return len(p) > 0 &&
		(uintptr(unsafe.Pointer(&p[0]))|uintptr(off)|uintptr(len(p)))%directAlign == 0
}

// ReadAt implements [io.ReaderAt].
func (d *direct) ReadAt(p []byte, off int64) (done int, err error) {
	if aligned(p, off) {
		return d.f.ReadAt(p, off)
	}

	d.mu.Lock()
	defer d.mu.Unlock()

	if d.buf == nil {
		return 0, os.ErrClosed
	}

	for done < len(p) {
		n := min(len(p)-done, len(d.buf)-2*directAlign)
		start, end := d.span(off+int64(done), n)
		got, err := d.f.ReadAt(d.buf[:end-start], start)
		skip := int(off + int64(done) - start)
		if got <= skip {
			return done, errors.Join(err, io.ErrUnexpectedEOF)
		}

		copied := copy(p[done:done+n], d.buf[skip:got])
		done += copied
		if copied < n {
			return done, errors.Join(err, io.ErrUnexpectedEOF)
		}
	}

	return done, nil
}

// WriteAt implements [io.WriterAt]. Sectors that p covers in part are read
// first.
func (d *direct) WriteAt(p []byte, off int64) (done int, err error) {
	if aligned(p, off) {
		return d.f.WriteAt(p, off)
	}

	d.mu.Lock()
	defer d.mu.Unlock()

	if d.buf == nil {
		return 0, os.ErrClosed
	}

	for done < len(p) {
		n := min(len(p)-done, len(d.buf)-2*directAlign)
		at := off + int64(done)
		start, end := d.span(at, n)
		if start != at || end != at+int64(n) {
			if _, err := d.f.ReadAt(d.buf[:end-start], start); err != nil {
				return done, err
			}
		}

		copy(d.buf[at-start:], p[done:done+n])
		if _, err := d.f.WriteAt(d.buf[:end-start], start); err != nil {
			return done, err
		}

		done += n
	}

	return done, nil
}

// Sync implements [device.Device].
func (d *direct) Sync() error { return unix.Fdatasync(int(d.f.Fd())) }

// Close implements [io.Closer].
func (d *direct) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()

	if d.buf == nil {
		return os.ErrClosed
	}

	err := unix.Munmap(d.buf)
	d.buf = nil
	return errors.Join(err, d.f.Close())
}
