package inspect

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"

	"github.com/loam-os/loam/image/qcow2"
)

// Open reads what is in a file, a block device, or a directory with one disk image: raw, raw and packed by zstd, qcow2, or a UKI. It writes
// nothing but what a packed disk has, for as long as it reads it, to a temporary file.
func Open(name string) (Image, error) {
	file, err := imageIn(name)
	if err != nil {
		return Image{}, err
	}
	f, err := os.Open(file)
	if err != nil {
		return Image{}, err
	}
	defer f.Close()
	im, err := readFile(f)
	if err != nil {
		return im, fmt.Errorf("%s: %w", file, err)
	}
	im.File = file
	return im, nil
}

// imageIn is the disk image in a directory, or the file itself.
func imageIn(name string) (string, error) {
	info, err := os.Stat(name)
	if err != nil || !info.IsDir() {
		return name, err
	}
	found, err := filepath.Glob(filepath.Join(name, "*.raw"))
	if err == nil && len(found) != 1 {
		err = fmt.Errorf("%s: %d files *.raw, want one\nhint: name the image itself", name, len(found))
	}
	if err != nil {
		return "", err
	}
	return found[0], nil
}

// zstdMagic begins a zstd frame (RFC 8878, 3.1.1).
const zstdMagic = "\x28\xb5\x2f\xfd"

func readFile(f *os.File) (Image, error) {
	start := make([]byte, 4)
	if _, err := io.ReadFull(f, start); err != nil {
		return Image{}, fmt.Errorf("too short for an image: %w", err)
	}
	size, err := f.Seek(0, io.SeekEnd) // A block device has no size of a file.
	if err != nil {
		return Image{}, err
	}
	switch {
	case qcow2.IsImage(start):
		disk, err := qcow2.NewReader(f)
		if err != nil {
			return Image{}, err
		}
		im, err := Read(disk, disk.Size())
		im.Format = "qcow2"
		return im, err
	case bytes.HasPrefix(start, []byte(zstdMagic)):
		im, err := readPacked(f)
		im.Format = "raw, zstd"
		return im, err
	}
	return Read(f, size)
}

// readPacked unpacks a disk into a file without a name.
func readPacked(f *os.File) (im Image, err error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return im, err
	}
	z, err := zstd.NewReader(bufio.NewReaderSize(f, 1<<20), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return im, err
	}
	defer z.Close()
	raw, err := os.CreateTemp("", "loamctl-*.raw")
	if err != nil {
		return im, err
	}
	defer func() { err = errors.Join(err, raw.Close()) }()
	if err := os.Remove(raw.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return im, err
	}
	size, err := unpack(raw, z)
	if err != nil {
		return im, err
	}
	return Read(raw, size)
}

// maxWindow is what zstd(1) unpacks without being asked for more memory.
const maxWindow = 128 << 20

// unpack writes what is not zero, and returns how much there is with zeros.
func unpack(to *os.File, from io.Reader) (size int64, err error) {
	buf := make([]byte, 1<<20)
	for {
		n, err := io.ReadFull(from, buf)
		if len(bytes.TrimLeft(buf[:n], "\x00")) > 0 {
			if _, err := to.WriteAt(buf[:n], size); err != nil {
				return size, err
			}
		}
		size += int64(n)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return size, to.Truncate(size)
		case err != nil:
			return size, err
		}
	}
}
