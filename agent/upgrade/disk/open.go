package disk

import (
	"fmt"
	"io"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/block"
	"github.com/loam-os/loam/partitions/gpt"
)

// Open opens the disk that has the partition root, a device node such as
// /dev/vda3. Only the partition table is written through Whole.
func Open(root string) (Disk, io.Closer, error) {
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
