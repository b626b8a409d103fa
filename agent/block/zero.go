package block

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Zero writes length zeros at start, with the disk's own command for that if it
// has one (BLKZEROOUT, linux/fs.h).
func Zero(f *os.File, start, length int64) error {
	span := [2]uint64{uint64(start), uint64(length)}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), unix.BLKZEROOUT,
		uintptr(unsafe.Pointer(&span)))
	if errno != 0 {
		return fmt.Errorf("zero %d bytes at %d: %w", length, start, errno)
	}
	return nil
}
