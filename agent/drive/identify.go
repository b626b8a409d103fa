package drive

import (
	"errors"
	"io"
	"strings"
)

// FileSystem describes the file system on a drive. Type is the kernel's name
// for it, "" for anything but FAT and ISO 9660.
type FileSystem struct{ Type, Label string }

// Identify returns the file system that r begins with. It is the zero
// FileSystem if r is too short, or the file system is not FAT or ISO 9660.
func Identify(r io.ReaderAt) (FileSystem, error) {
	for _, identify := range []func(io.ReaderAt) (FileSystem, error){iso9660, fat} {
		if found, err := identify(r); err != nil || found.Type != "" {
			return found, err
		}
	}
	return FileSystem{}, nil
}

// iso9660 reads the primary volume descriptor (ECMA-119, 8.4). Descriptors begin
// in sector 16, the first that is not reserved for the system; sectors have 2048
// bytes.
func iso9660(r io.ReaderAt) (FileSystem, error) {
	const (
		primary = 1
		last    = 255
	)
	for sector := int64(16); sector < 32; sector++ {
		descriptor, err := at(r, sector*2048, 72)
		if err != nil || len(descriptor) < 72 || string(descriptor[1:7]) != "CD001\x01" {
			return FileSystem{}, err
		}

		switch descriptor[0] {
		case primary:
			return FileSystem{"iso9660", text(descriptor[40:72])}, nil
		case last:
			return FileSystem{}, nil
		}
	}
	return FileSystem{}, nil
}

func text(label []byte) string { return strings.TrimRight(string(label), " \x00") }

// at reads n bytes, or fewer at the end.
func at(r io.ReaderAt, off int64, n int) ([]byte, error) {
	b := make([]byte, n)
	got, err := r.ReadAt(b, max(off, 0))
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return b[:got], err
}
