package source

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// ESP reads files of the EFI system partition.
type ESP interface {
	// Open opens the file of that path, which begins with / at the root of the
	// partition. A file that is not there is fs.ErrNotExist.
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

// Partition is the EFI system partition on a block device. It is mounted
// read-only while a file of it is open, and nowhere in the tree of files, so
// that nothing else can see it or be hidden by it.
type Partition struct {
	// Device is the device node, such as /dev/vda1.
	Device string
}

// Open mounts the partition and opens a file, see ESP. Close unmounts it.
func (p Partition) Open(path string) (io.ReadCloser, error) {
	root, err := p.mount()
	if err != nil {
		// The cause is cut off: a missing device is not a missing file.
		return nil, fmt.Errorf("mount %s: %v", p.Device, err)
	}
	// The open file keeps the mount; both end with its Close.
	defer unix.Close(root)
	fd, err := unix.Openat2(root, strings.TrimPrefix(path, "/"), &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// mount is a file descriptor of the root of a mount (fsmount(2), Linux 5.2).
func (p Partition) mount() (int, error) {
	root, err := p.mountFlag("ro")
	if errors.Is(err, unix.EBUSY) {
		// Mounted writable elsewhere. This mount still is read-only.
		return p.mountFlag("rw")
	}
	return root, err
}

func (p Partition) mountFlag(flag string) (int, error) {
	fsfd, err := unix.Fsopen("vfat", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("fsopen vfat: %w", err)
	}
	defer unix.Close(fsfd)
	if err := unix.FsconfigSetString(fsfd, "source", p.Device); err != nil {
		return -1, fmt.Errorf("fsconfig source: %w", err)
	}
	if err := unix.FsconfigSetFlag(fsfd, flag); err != nil {
		return -1, fmt.Errorf("fsconfig %s: %w", flag, err)
	}
	if err := unix.FsconfigCreate(fsfd); err != nil {
		return -1, fmt.Errorf("fsconfig create: %w", err)
	}
	attrs := unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC
	root, err := unix.Fsmount(fsfd, unix.FSMOUNT_CLOEXEC, attrs)
	if err != nil {
		return -1, fmt.Errorf("fsmount: %w", err)
	}
	return root, nil
}
