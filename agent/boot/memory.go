package boot

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/partitions/verity"
)

// MemoryDir stores a system that runs from memory, as it came: the root file
// system stays compressed. It moves to the running system with /run.
const MemoryDir = "/run/loam/memory"

// MountMemory mounts a tmpfs for a system in memory. It may fill nearly all of
// the memory while a disk is written.
func (i *Init) MountMemory() error {
	return mount{
		source: "tmpfs",
		target: MemoryDir,
		fstype: "tmpfs",
		flags:  unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC,
		data:   "mode=0700,size=90%",
	}.apply()
}

// File is a part of a file, in bytes.
type File struct {
	Name        string
	Start, Size int64
}

// FromMemory decides to run a system whose root file system and hash tree are
// files in MemoryDir. It verifies every block with the root hash, so that a
// corrupt transfer is found now, and not when the kernel reads the block.
func (i *Init) FromMemory(hash [32]byte, root, tree File) (Decision, error) {
	sb, err := verify(hash, root, tree)
	if err != nil {
		return Decision{}, err
	}

	if err := i.modules.load("loop"); err != nil {
		return Decision{}, err
	}

	data, err := attachLoop(root)
	if err != nil {
		return Decision{}, err
	}

	hashes, err := attachLoop(tree)
	if err != nil {
		return Decision{}, err
	}

	d := Decision{Slot: "memory", RootHash: fmt.Sprintf("%x", hash), Memory: true}
	d.verified(data, hashes, sb, hash)
	return d, nil
}

func verify(hash [32]byte, root, tree File) (sb verity.Superblock, err error) {
	data, err := os.Open(root.Name)
	if err != nil {
		return sb, err
	}
	defer data.Close()

	hashes, err := os.Open(tree.Name)
	if err != nil {
		return sb, err
	}
	defer hashes.Close()

	in := io.NewSectionReader(hashes, tree.Start, tree.Size)
	sb, err = verity.ReadSuperblock(in)
	if err != nil {
		return sb, err
	}

	err = verity.Verify(io.NewSectionReader(data, root.Start, root.Size), in, hash)
	if err != nil {
		return sb, fmt.Errorf("not the system of root hash %x…: %w", hash[:6], err)
	}

	return sb, nil
}

// attachLoop attaches a file, read-only, to a loop device and returns its node
// (loop(4)). Sectors of 4096 bytes are less work than 512.
func attachLoop(file File) (string, error) {
	f, err := os.Open(file.Name)
	if err != nil {
		return "", err
	}
	defer f.Close() // The device keeps it open.

	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return "", fmt.Errorf("loop device: %w", err)
	}
	defer control.Close()

	number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
	if err != nil {
		return "", fmt.Errorf("loop device: %w", err)
	}

	node := fmt.Sprintf("/dev/loop%d", number)
	device, err := os.OpenFile(node, os.O_RDONLY, 0)
	if err != nil {
		return "", fmt.Errorf("loop device: %w", err)
	}

	config := unix.LoopConfig{
		Fd:   uint32(f.Fd()),
		Size: verity.BlockSize,
		Info: unix.LoopInfo64{
			Offset:    uint64(file.Start),
			Sizelimit: uint64(file.Size),
			Flags:     unix.LO_FLAGS_READ_ONLY,
		},
	}

	err = errors.Join(unix.IoctlLoopConfigure(int(device.Fd()), &config), device.Close())
	if err != nil {
		return "", fmt.Errorf("loop device %s of %s: %w", node, file.Name, err)
	}

	return node, nil
}
