package durable

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// ErrLocked means that another process has the lock.
var ErrLocked = errors.New("locked by another process")

// Lock opens the file name of root, which is created if absent, and locks it
// (flock(2)) until the file is closed. It waits for another process that has
// it. The file stays in place: if it were removed, two processes could lock two
// files of one name.
func Lock(root *os.Root, name string) (*os.File, error) {
	return lock(root, name, unix.LOCK_EX)
}

// TryLock is Lock that does not wait: it returns [ErrLocked].
func TryLock(root *os.Root, name string) (*os.File, error) {
	return lock(root, name, unix.LOCK_EX|unix.LOCK_NB)
}

func lock(root *os.Root, name string, how int) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}

	for {
		err := unix.Flock(int(f.Fd()), how)
		switch {
		case err == nil:
			return f, nil
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EWOULDBLOCK):
			err = ErrLocked
		}
		return nil, errors.Join(fmt.Errorf("lock %s: %w", name, err), f.Close())
	}
}
