package fat

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/loam-os/loam/partitions/device"
	"github.com/loam-os/loam/partitions/fat/dirent"
)

// ReadOnly is a partition that nothing is written to.
func ReadOnly(r io.ReaderAt) device.Device { return readOnly{r} }

type readOnly struct{ io.ReaderAt }

func (readOnly) WriteAt([]byte, int64) (int, error) { return 0, errors.ErrUnsupported }
func (readOnly) Sync() error                        { return nil }

// Uniform is a directory whose names all take the same number of slots, to
// which another writer only appends. No name with another number of slots gets
// into it, and Reclaim gives the slots after its last entry back.
type Uniform struct {
	Dir   string // path, like "EFI/Linux"
	Slots int
}

// ErrDirFull: no sector of the directory has room for the entry. Directories do
// not grow: growing one is not atomic.
var ErrDirFull = errors.New("directory is full")

const (
	// sectorSize is the smallest unit that a disk writes completely or not at
	// all; the file system's own sectors may be larger.
	sectorSize = 512
	perSector  = sectorSize / dirent.SlotSize // directory slots
)

// FS is an open file system, for one goroutine, and the only writer of its
// partition. After a failed write or flush the content of the disk is unknown:
// all later writes fail until Open reads the disk again.
//
// It is made of layers: fats gives and takes clusters, directories finds
// entries, and what nothing refers to, and FS changes what has a name. A single
// [directory] writes its own sectors.
type FS struct {
	directories
	boot   bootSectors
	staged map[uint32]int // chains that can be linked: clusters by the first of them
}

// directories are all directories of a file system, and what they refer to.
type directories struct {
	fats
	uniform []Uniform
}

// fats is both FATs of a file system, and the clusters that they are about.
type fats struct {
	disk disk
	geometry
	fat    table // FAT 1, with what was changed
	second table // FAT 2 as read, if it is not equal to FAT 1; else nil
}

// Open reads the boot sector, or its copy if that is damaged (Check tells), and
// both FATs of a partition of size bytes. blockSize is what reads and writes of
// d are multiples of, 512 or 4096: a disk's logical sector size. The memory
// that they are given is not aligned. To compare what was staged with what the
// disk has, d should not read from a cache. The directories of uniform are kept
// as they promise.
func Open(d device.Device, size int64, blockSize int, uniform ...Uniform) (*FS, error) {
	return open(d, size, blockSize, minClusters, uniform...)
}

// open is Open for tests too, which try a hundred thousand small file systems.
func open(
	d device.Device, size int64, blockSize int, least int64, uniform ...Uniform,
) (*FS, error) {
	if (blockSize != 512 && blockSize != 4096) || size%int64(blockSize) != 0 || size <= 0 {
		return nil, fmt.Errorf(
			"open FAT32: %d bytes in blocks of %d: want whole blocks of 512 or 4096",
			size, blockSize,
		)
	}

	f := &FS{
		directories: directories{
			fats:    fats{disk: disk{d: d, size: size, block: int64(blockSize)}},
			uniform: uniform,
		},
		staged: map[uint32]int{},
	}

	var err error
	f.boot, err = readBoot(&f.disk, least)
	if err == nil {
		err = f.boot.choose(&f.directories)
	}
	if err != nil {
		return nil, fmt.Errorf("open FAT32: %w", err)
	}

	return f, nil
}

// fitsTree reads the FATs, and returns why they and the tree are not what the
// geometry says.
func (f *directories) fitsTree() error {
	if err := f.readFATs(); err != nil {
		return err
	}

	s := f.survey()
	if s.partial {
		return errors.New(s.broken[0])
	}
	if len(s.dirs[0].entries) == 0 {
		return errors.New("the root directory is empty")
	}
	for _, d := range s.dirs[1:] {
		if !d.hasDot() {
			return fmt.Errorf("/%s: no directory begins so", d.path)
		}
	}
	return nil
}

// readFATs keeps the second only if it is not as the first.
func (f *fats) readFATs() error {
	f.fat = make(table, f.fatBytes())
	f.second = nil
	if err := f.disk.read(f.fat, f.fatAt(0)); err != nil {
		return fmt.Errorf("FAT 1: %w", err)
	}

	buf := make([]byte, min(64<<10, len(f.fat)))
	for at := 0; at < len(f.fat); at += len(buf) {
		buf = buf[:min(len(buf), len(f.fat)-at)]
		if err := f.disk.read(buf, f.fatAt(1)+int64(at)); err != nil {
			return fmt.Errorf("FAT 2: %w", err)
		}
		if f.second == nil && !bytes.Equal(buf, f.fat[at:at+len(buf)]) {
			f.second = bytes.Clone(f.fat)
		}
		if f.second != nil {
			copy(f.second[at:], buf)
		}
	}

	if f.fat[0] != f.media && (f.second == nil || f.second[0] != f.media) {
		return fmt.Errorf("FAT 1: begins with %#x, want the boot sector's media %#x",
			f.fat[0], f.media)
	}

	return nil
}

// Free is the bytes in free clusters.
func (f *fats) Free() int64 { return int64(f.freeClusters()) * f.clusterSize }

func (f *fats) freeClusters() uint32 {
	free := f.clusters
	for range f.fat.used(f.last()) {
		free--
	}
	return free
}
