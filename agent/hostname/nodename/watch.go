package nodename

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// ErrChanged means that the node has another host name.
var ErrChanged = errors.New("the host name changed")

// hostnameFile has the host name. poll(2) reports changes by POLLPRI and
// POLLERR (fs/proc/proc_sysctl.c, kernel/utsname_sysctl.c).
const hostnameFile = "/proc/sys/kernel/hostname"

// AwaitChange returns [ErrChanged] as soon as the host name is not name, and
// nil when ctx ends.
func AwaitChange(ctx context.Context, name string) error {
	err := awaitChange(ctx, name)
	if err != nil && !errors.Is(err, ErrChanged) {
		return fmt.Errorf("watch the host name: %w", err)
	}
	return err
}

func awaitChange(ctx context.Context, name string) error {
	// The runtime's own poll would consume the event of an os.File.
	fd, err := unix.Open(hostnameFile, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)

	// The end of ctx makes this file readable, which ends the poll.
	ended, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(ended)
	notified := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(notified)
		// Adding one to an eventfd of 0 does not fail.
		_, _ = unix.Write(ended, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	})
	defer func() {
		if !stop() {
			<-notified
		}
	}()

	for ctx.Err() == nil {
		now, err := readName(fd)
		if err != nil {
			return err
		}
		if now != name {
			return fmt.Errorf("%w from %s to %s", ErrChanged, name, now)
		}

		fds := []unix.PollFd{
			{Fd: int32(fd), Events: unix.POLLPRI},
			{Fd: int32(ended), Events: unix.POLLIN},
		}
		if _, err := unix.Ppoll(fds, nil, nil); err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
	}
	return nil
}

// readName reads the host name from the start of the open file fd.
func readName(fd int) (string, error) {
	var text [256]byte
	n, err := unix.Pread(fd, text[:], 0)
	if err != nil {
		return "", err
	}
	return string(bytes.TrimSpace(text[:n])), nil
}
