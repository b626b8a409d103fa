package source

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/loam-os/loam/partitions/fat"
)

// ESP reads files of the EFI system partition.
type ESP interface {
	// Open opens the file at path, which begins with / at the root of the
	// partition. The error for a missing file is fs.ErrNotExist.
	Open(path string) (io.ReadCloser, error)
}

func readESP(esp ESP, path string) ([]byte, error) {
	file, err := esp.Open(path)
	if err != nil {
		return nil, err
	}
	text, err := readLimited(file)
	return text, errors.Join(err, file.Close())
}

// Partition is the EFI system partition on a block device. It is read without a
// mount, because an upgrade edits the partition and needs it for itself.
type Partition struct {
	// Device is the device node, such as /dev/vda1.
	Device string
}

// Open implements [ESP].
func (p Partition) Open(path string) (io.ReadCloser, error) {
	device, err := os.Open(p.Device)
	if err != nil {
		// %v, because a missing device is not a missing file.
		return nil, fmt.Errorf("open %s: %v", p.Device, err)
	}

	r, err := open(device, strings.TrimPrefix(path, "/"))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", p.Device, err), device.Close())
	}

	return struct {
		io.Reader
		io.Closer
	}{r, device}, nil
}

// Redact replaces the file at path by text, and erases the old content from the
// partition. Nothing else may write to the partition meanwhile.
func (p Partition) Redact(path string, text []byte) error {
	device, err := os.OpenFile(p.Device, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer device.Close()

	size, err := device.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("%s: %w", p.Device, err)
	}
	fs, err := fat.Open(device, size, sectorSize)
	if err != nil {
		return fmt.Errorf("%s: %w", p.Device, err)
	}
	if err := fs.Redact(strings.TrimPrefix(path, "/"), text); err != nil {
		return fmt.Errorf("%s: %w", p.Device, err)
	}
	return nil
}

// sectorSize is a sector size that every disk supports.
const sectorSize = 512

func open(device *os.File, path string) (io.Reader, error) {
	size, err := device.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, fmt.Errorf("size: %v", err)
	}
	fs, err := fat.Open(device, size, sectorSize)
	if err != nil {
		return nil, err
	}
	return fs.Open(path)
}
