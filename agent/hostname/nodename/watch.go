package nodename

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// ErrChanged means that the host name is another: the agent ends, to be started
// again as that node.
var ErrChanged = errors.New("the host name changed")

// hostnameFile has the host name. poll(2) tells of changes by POLLPRI and POLLERR
// (fs/proc/proc_sysctl.c, kernel/utsname_sysctl.c).
const hostnameFile = "/proc/sys/kernel/hostname"

// AwaitChange returns ErrChanged as soon as the host name is not name, and nil when
// ctx ends.
func AwaitChange(ctx context.Context, name string) error { return awaitChange(ctx, hostnameFile, name) }

// awaitChange returns ErrChanged as soon as the host name in file is not name, and
// nil when ctx ends.
func awaitChange(ctx context.Context, file, name string) error {
	fd, err := unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0) // No os.File: the runtime's own poll would take the news.
	if err != nil {
		return fmt.Errorf("watch the host name: %w", err)
	}
	defer unix.Close(fd)
	end, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("watch the host name: %w", err)
	}
	defer unix.Close(end)
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(woken)
		_, _ = unix.Write(end, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // Eight bytes to an eventfd of 0 do not fail.
	})
	defer func() {
		if !stop() {
			<-woken
		}
	}()
	for ctx.Err() == nil {
		var text [256]byte
		n, err := unix.Pread(fd, text[:], 0)
		if err != nil {
			return fmt.Errorf("watch the host name: %w", err)
		}
		if now := string(bytes.TrimSpace(text[:n])); now != name {
			return fmt.Errorf("%w from %s to %s", ErrChanged, name, now)
		}
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLPRI}, {Fd: int32(end), Events: unix.POLLIN}}
		if _, err := unix.Ppoll(fds, nil, nil); err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("watch the host name: %w", err)
		}
	}
	return nil
}
