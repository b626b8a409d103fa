package upgrade

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/block"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/partitions/gpt"
)

// OpenDisk opens the disk that has the partition root, a device node such as
// /dev/vda3. Only the partition table is written through Whole.
func OpenDisk(root string) (Disk, io.Closer, error) {
	dir, err := filepath.EvalSymlinks(filepath.Join("/sys/class/block", filepath.Base(root)))
	if err != nil {
		return Disk{}, nil, fmt.Errorf("find the disk of %s: %w", root, err)
	}

	dir = filepath.Dir(dir)
	sectors, err := block.Number(dir, "size")
	if err != nil {
		return Disk{}, nil, err
	}

	sectorSize, err := block.Number(dir, "queue/logical_block_size")
	if err != nil {
		return Disk{}, nil, err
	}

	whole, err := openDirect(block.Node(filepath.Base(dir)), unix.O_RDWR, int(sectorSize))
	if err != nil {
		return Disk{}, nil, err
	}

	return Disk{
		Arch:       runtime.GOARCH,
		Size:       sectors * 512, // sysfs counts sectors of 512 bytes, always.
		SectorSize: int(sectorSize),
		Whole:      whole,
		Partitions: deviceNodes{block.Partitions(dir), int(sectorSize)},
	}, whole, nil
}

// deviceNodes are the partitions of a disk, by their device nodes.
type deviceNodes struct {
	nodes      map[int]string
	sectorSize int
}

// Open implements [Partitions].
func (d deviceNodes) Open(p gpt.Partition) (Closer, error) {
	return openDirect(d.nodes[p.Index], unix.O_RDWR|unix.O_EXCL, d.sectorSize)
}

// OpenRunning implements [Partitions].
func (d deviceNodes) OpenRunning(p gpt.Partition) (io.ReaderAt, io.Closer, error) {
	r, err := openDirect(d.nodes[p.Index], unix.O_RDONLY, d.sectorSize)
	return r, r, err
}

// Files implements [Records] with files of /var/lib/loam.
type Files struct{ Dir *durable.Dir }

// Read implements [records.Store]; so do Write and Remove.
func (f Files) Read(name string) ([]byte, error) { return fs.ReadFile(f.Dir.Root().FS(), name) }

func (f Files) Write(name string, data []byte) error {
	_, err := f.Dir.WriteFile(name, data, 0o600)
	return err
}

func (f Files) Remove(name string) error { return f.Dir.Remove(name) }

// Free implements [Records].
func (f Files) Free() (int64, error) {
	dir, err := f.Dir.Root().Open(".")
	if err != nil {
		return 0, err
	}
	var s unix.Statfs_t
	err = unix.Fstatfs(int(dir.Fd()), &s)
	return int64(s.Bavail) * s.Bsize, errors.Join(err, dir.Close())
}

// Scratch implements [Records].
func (f Files) Scratch(size int64) (Closer, error) {
	file, err := f.Dir.Root().OpenFile(scratchName, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := file.Truncate(size); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}
