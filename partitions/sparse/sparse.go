// Package sparse reads and makes files with holes, such as disk images.
package sparse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Extent is a part of a file, in bytes; End is after the last one.
type Extent struct{ Start, End int64 }

// Data are the parts of the first size bytes of a file that are no holes, in
// their order (lseek(2), SEEK_DATA). It moves the file's offset.
func Data(f *os.File, size int64) (all []Extent, err error) {
	for at := int64(0); at < size; {
		start, err := f.Seek(at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) || (err == nil && start >= size) {
			break
		}

		if err != nil {
			return nil, fmt.Errorf("find data of %s from byte %d: %w", f.Name(), at, err)
		}

		at, err = f.Seek(start, unix.SEEK_HOLE)
		if err != nil {
			return nil, fmt.Errorf("find hole of %s from byte %d: %w", f.Name(), start, err)
		}

		all = append(all, Extent{start, min(at, size)})
	}
	return all, nil
}

// Copy writes the first size bytes of a file, holes as zeros, which are not
// read: that takes three times as long.
func Copy(w io.Writer, f *os.File, size int64) error {
	all, err := Data(f, size)
	if err != nil {
		return err
	}

	zeros := make([]byte, 1<<20)
	at := int64(0)
	for _, e := range append(all, Extent{size, size}) {
		for at < e.Start {
			n, err := w.Write(zeros[:min(e.Start-at, int64(len(zeros)))])
			if err != nil {
				return err
			}
			at += int64(n)
		}
		n, err := io.Copy(w, io.NewSectionReader(f, e.Start, e.End-e.Start))
		if err != nil {
			return err
		}
		at += n
	}

	if at != size {
		return fmt.Errorf("%s ends after %d bytes: %w", f.Name(), at, io.ErrUnexpectedEOF)
	}

	return nil
}

// Write makes the file to what from has, with holes for blocks of zeros, and
// returns its size. The file has to be empty.
func Write(to *os.File, from io.Reader) (size int64, err error) {
	buf := make([]byte, 256<<10)
	for {
		n := 0
		for err == nil && n < len(buf) {
			// io.ReadFull does not tell what ends from what was cut off
			var some int
			some, err = from.Read(buf[n:])
			n += some
		}

		const block = 4096
		for at := 0; at < n; at += block {
			part := buf[at:min(at+block, n)]
			if len(bytes.TrimLeft(part, "\x00")) == 0 {
				continue
			}
			if _, err := to.WriteAt(part, size+int64(at)); err != nil {
				return size, err
			}
		}

		size += int64(n)
		switch {
		case err == io.EOF:
			return size, to.Truncate(size)
		case err != nil:
			return size, err
		}
	}
}
