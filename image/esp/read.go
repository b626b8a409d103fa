package esp

import (
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/diskfs/go-diskfs/backend"
	"github.com/diskfs/go-diskfs/filesystem/fat32"
)

// Read reads a file of a FAT32 file system with this sector size that starts at
// byte 0 of r, by a path like "EFI/BOOT/BOOTX64.EFI". It uses go-diskfs, so
// that an independent reader checks the builder's writer. go-diskfs cannot read
// an empty file: that is an error.
func Read(r io.ReaderAt, sectorSize int, path string) ([]byte, error) {
	fsys, err := readFS(r, sectorSize)
	if err != nil {
		return nil, err
	}

	data, err := fsys.ReadFile("/" + path)
	if err != nil {
		return nil, fmt.Errorf("read ESP: %s: %w", path, err)
	}

	return data, nil
}

// Open is Read for a file that is too large for memory. Each call of Read on
// the reader looks up all clusters of the file: use a large buffer.
func Open(r io.ReaderAt, sectorSize int, path string) (io.Reader, error) {
	fsys, err := readFS(r, sectorSize)
	if err != nil {
		return nil, err
	}

	file, err := fsys.OpenFile("/"+path, os.O_RDONLY)
	if err != nil {
		return nil, fmt.Errorf("read ESP: %s: %w", path, err)
	}

	return file, nil
}

func readFS(r io.ReaderAt, sectorSize int) (*fat32.FileSystem, error) {
	fsys, err := fat32.Read(storage{io.NewSectionReader(r, 0, fat32.Fat32MaxSize)},
		fat32.Fat32MaxSize, 0, int64(sectorSize))
	if err != nil {
		return nil, fmt.Errorf("read ESP: %w", err)
	}
	return fsys, nil
}

// storage is an io.ReaderAt as go-diskfs wants it.
type storage struct{ *io.SectionReader }

func (storage) Stat() (fs.FileInfo, error)              { return nil, fs.ErrInvalid }
func (storage) Close() error                            { return nil }
func (storage) Sys() (*os.File, error)                  { return nil, backend.ErrNotSuitable }
func (storage) Writable() (backend.WritableFile, error) { return nil, backend.ErrIncorrectOpenMode }
func (storage) Path() string                            { return "" }
