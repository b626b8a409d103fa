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

// OpenDisk opens the disk that the partition root is on, a device node such as
// /dev/vda3. What is written to Whole is the partition table only.
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
	nodes := block.Partitions(dir)
	return Disk{
		Arch: runtime.GOARCH, Size: sectors * 512, SectorSize: int(sectorSize), Whole: whole, // sysfs counts sectors of 512 bytes, always
		Open: func(p gpt.Partition) (Closer, error) {
			return openDirect(nodes[p.Index], unix.O_RDWR|unix.O_EXCL, int(sectorSize))
		},
		Running: func(p gpt.Partition) (io.ReaderAt, io.Closer, error) {
			d, err := openDirect(nodes[p.Index], unix.O_RDONLY, int(sectorSize))
			return d, d, err
		},
	}, whole, nil
}

// Files is a Keeper: files of /var/lib/loam.
type Files struct{ Dir *durable.Dir }

// Read is of Keeper; so are the following.
func (f Files) Read(name string) ([]byte, error) { return fs.ReadFile(f.Dir.Root().FS(), name) }

func (f Files) Write(name string, data []byte) error {
	_, err := f.Dir.WriteFile(name, data, 0o600)
	return err
}

func (f Files) Remove(name string) error { return f.Dir.Remove(name) }

// Free is Upgrader.Free.
func (f Files) Free() (int64, error) {
	dir, err := f.Dir.Root().Open(".")
	if err != nil {
		return 0, err
	}
	var s unix.Statfs_t
	err = unix.Fstatfs(int(dir.Fd()), &s)
	return int64(s.Bavail) * s.Bsize, errors.Join(err, dir.Close())
}

// Scratch is Upgrader.Scratch.
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
