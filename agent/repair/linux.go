package repair

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// WithMounted mounts an ext4 file system at dir, calls do with the directory, and
// unmounts it. The error of a failed mount is ErrMount.
func WithMounted(device, dir string, do func(root *os.Root) error) (err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}

	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOATIME
	if err := unix.Mount(device, dir, "ext4", flags, "errors=remount-ro"); err != nil {
		return fmt.Errorf("%w %s: %w", ErrMount, device, err)
	}
	defer func() { err = errors.Join(err, unix.Unmount(dir, 0)) }()

	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("%w %s: %w", ErrMount, device, err)
	}
	defer root.Close()

	return do(root)
}
