// Package sparse finds what there is in a file with holes, such as a disk image.
package sparse

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Extent is a part of a file, in bytes; End is after the last one.
type Extent struct{ Start, End int64 }

// Data are the parts of the first size bytes of a file that are no holes, in their order (lseek(2), SEEK_DATA). It moves the file's offset.
func Data(f *os.File, size int64) (all []Extent, err error) {
	for at := int64(0); at < size; {
		start, err := f.Seek(at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) || err == nil && start >= size {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("find data of %s from byte %d: %w", f.Name(), at, err)
		}
		if at, err = f.Seek(start, unix.SEEK_HOLE); err != nil {
			return nil, fmt.Errorf("find hole of %s from byte %d: %w", f.Name(), start, err)
		}
		all = append(all, Extent{start, min(at, size)})
	}
	return all, nil
}

// Copy writes the first size bytes of a file, holes as zeros, which are not read: that takes three times as long.
func Copy(w io.Writer, f *os.File, size int64) error {
	all, err := Data(f, size)
	if err != nil {
		return err
	}
	zeros, at := make([]byte, 1<<20), int64(0)
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
