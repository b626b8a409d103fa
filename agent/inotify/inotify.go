// Package inotify opens instances of inotify(7). The kernel has few for all programs
// of a user, which includes root in pods, so a program that needs one must do
// without for a while.
package inotify

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// Open returns an instance without watches. Reading it waits for events, until it is
// closed.
func Open() (*os.File, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("inotify_init1: %w", err)
	}
	return os.NewFile(uintptr(fd), "inotify"), nil
}

// Limit returns the kernel's limit, for all programs together, that err is of; nil
// if it is of none. It may pass.
func Limit(err error) error {
	return fault.With(limit(err), fault.LimitReached)
}

func limit(err error) error {
	switch {
	case errors.Is(err, unix.EMFILE):
		return hint.With(fmt.Errorf("no more instances of inotify: %w", unix.EMFILE),
			"raise the limit, sysctl fs.inotify.max_user_instances")
	case errors.Is(err, unix.ENFILE):
		return hint.With(fmt.Errorf("no more open files: %w", unix.ENFILE),
			"raise the limit, sysctl fs.file-max")
	case errors.Is(err, unix.ENOSPC):
		return hint.With(fmt.Errorf("no more watches of inotify: %w", unix.ENOSPC),
			"raise the limit, sysctl fs.inotify.max_user_watches")
	case errors.Is(err, unix.ENOMEM):
		return unix.ENOMEM
	}
	return nil
}
