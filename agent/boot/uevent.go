package boot

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// uevents tells that the kernel has added or removed a device
// (NETLINK_KOBJECT_UEVENT, netlink(7)).
type uevents struct{ fd int }

func openUevents() (*uevents, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return nil, fmt.Errorf("open device events: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("listen to device events: %w", err)
	}
	return &uevents{fd}, nil
}

// wait returns when something happened, and all of it is taken in; or false
// at the deadline.
func (u *uevents) wait(deadline time.Time) bool {
	for {
		left := time.Until(deadline)
		if left <= 0 {
			return false
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(u.fd), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			return false
		}
		u.drain()
		return true
	}
}

// drain empties the socket. An overrun (ENOBUFS) is an event like any other:
// the caller looks at the machine anew.
func (u *uevents) drain() {
	var b [8192]byte
	for {
		if _, _, err := unix.Recvfrom(u.fd, b[:], 0); err != nil && !errors.Is(err, unix.ENOBUFS) {
			return
		}
	}
}

func (u *uevents) close() { unix.Close(u.fd) }
