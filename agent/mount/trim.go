package mount

import (
	"errors"
	"fmt"
	"math"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// fitrim is FITRIM: _IOWR('X', 121, struct fstrim_range) (linux/fs.h).
const fitrim = 0xc018_5879

// Trim has the disk forget what the free blocks of the file system at dir held.
// A disk that cannot do that is no error.
func Trim(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()

	// Blocks are free only after the journal has them as free.
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}

	whole := struct{ start, length, least uint64 }{length: math.MaxUint64}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), fitrim, uintptr(unsafe.Pointer(&whole)))
	switch {
	case errno == 0, errors.Is(errno, unix.EOPNOTSUPP), errors.Is(errno, unix.ENOTTY):
		return nil
	}
	return fmt.Errorf("trim %s: %w", dir, errno)
}
