package inspect

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/meter"
	"github.com/loam-os/loam/image/qcow2"
	"github.com/loam-os/loam/partitions/sparse"
)

// Open reads the content of a file, as OpenSource does.
func Open(ctx context.Context, name string, report meter.Report) (Image, error) {
	s, err := OpenSource(ctx, name, report)
	if err != nil {
		return Image{}, err
	}
	defer s.Close()

	im, err := Read(s, s.Size)
	if err != nil {
		return im, fmt.Errorf("%s: %w", s.File, err)
	}

	im.File = s.File
	if im.Disk != nil {
		im.Format = s.Format
	}

	return im, nil
}

// Source is a disk, or a UKI, that is in a file.
type Source struct {
	io.ReaderAt

	// File is where it was found, Format as Image has it; Size is the size of
	// the disk in bytes.
	File, Format string
	Size         int64
	files        []*os.File
}

// Close is io.Closer.
func (s Source) Close() error {
	var err error
	for _, f := range s.files {
		err = errors.Join(err, f.Close())
	}
	return err
}

// OpenSource opens a file, a block device, or a directory with one disk image:
// raw, raw and packed by zstd, qcow2, or a UKI. What is packed is in a
// temporary file until Close; report is told how far the unpacking is.
func OpenSource(ctx context.Context, name string, report meter.Report) (Source, error) {
	file, err := imageIn(name)
	if err != nil {
		return Source{}, err
	}

	f, err := os.Open(file)
	if err != nil {
		return Source{}, err
	}

	s := Source{
		ReaderAt: f,
		File:     file,
		Format:   "raw",
		files:    []*os.File{f},
	}
	if err := s.look(ctx, f, report); err != nil {
		return Source{}, errors.Join(fmt.Errorf("%s: %w", file, err), s.Close())
	}

	return s, nil
}

// imageIn is the disk image in a directory, or the file itself.
func imageIn(name string) (string, error) {
	info, err := os.Stat(name)
	if err != nil || !info.IsDir() {
		return name, err
	}

	found, err := filepath.Glob(filepath.Join(name, "*.raw"))

	// the installer of the same build
	found = slices.DeleteFunc(found, func(file string) bool {
		return strings.HasSuffix(file, ".usb.raw")
	})
	if err == nil && len(found) != 1 {
		err = hint.With(fault.With(fmt.Errorf("%s: %d files *.raw, want one", name, len(found)),
			fault.NotAnImage),
			"name the image itself")
	}

	if err != nil {
		return "", err
	}

	return found[0], nil
}

// zstdMagic begins a zstd frame (RFC 8878, 3.1.1).
const zstdMagic = "\x28\xb5\x2f\xfd"

// look finds the disk in a file.
func (s *Source) look(ctx context.Context, f *os.File, report meter.Report) (err error) {
	start := make([]byte, 4)
	if _, err := io.ReadFull(f, start); err != nil {
		return fault.With(fmt.Errorf("too short for an image: %w", err), fault.NotAnImage)
	}

	switch {
	case qcow2.IsImage(start):
		disk, err := qcow2.NewReader(f)
		if errors.Is(err, io.EOF) {
			return cutOff("the qcow2 file")
		}
		if err != nil {
			return fault.With(err, fault.NotAnImage)
		}
		s.ReaderAt = disk
		s.Size = disk.Size()
		s.Format = "qcow2"
		return nil
	case bytes.HasPrefix(start, []byte(zstdMagic)):
		s.Format = "raw, zstd"
		return s.unpack(ctx, f, report)
	}

	s.Size, err = f.Seek(0, io.SeekEnd) // A block device has no size of a file.
	return err
}

// unpack unpacks a disk into a file without a name.
func (s *Source) unpack(ctx context.Context, f *os.File, report meter.Report) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}

	part := meter.Begin(ctx, "unpack", info.Size(), report)
	packed := bufio.NewReaderSize(io.TeeReader(f, part), 1<<20)
	z, err := zstd.NewReader(packed, zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return err
	}
	defer z.Close()

	raw, err := os.CreateTemp("", "loamctl-*.raw")
	if err != nil {
		return err
	}

	s.ReaderAt = raw
	s.files = append(s.files, raw)

	if err := os.Remove(raw.Name()); err != nil {
		return err
	}

	s.Size, err = sparse.Write(raw, z)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return cutOff("the packed data")
	}

	return err
}

// cutOff is the error of an image that ends too early.
func cutOff(what string) error {
	return hint.With(fault.With(fmt.Errorf("%s is cut off", what), fault.NotAnImage),
		"get it again, and compare it with SHA256SUMS")
}

// maxWindow is what zstd(1) unpacks without being asked for more memory.
const maxWindow = 128 << 20
