// Package uevent receives events about devices that are added, changed and
// removed.
package uevent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Groups of NETLINK_KOBJECT_UEVENT: the events of the kernel
// (lib/kobject_uevent.c), and those of udevd, sent after it has processed them
// (sd-device, MONITOR_GROUP_UDEV).
const (
	Kernel = 1
	Udev   = 2
)

// Events receives the events of a machine.
type Events struct {
	fd        int
	subsystem []byte
}

// Open subscribes to groups, for devices of that subsystem or, if "", of all.
func Open(groups uint32, subsystem string) (*Events, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK,
		unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return nil, fmt.Errorf("open device events: %w", err)
	}

	err = unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: groups})
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("listen to device events: %w", err)
	}

	e := &Events{fd: fd}
	if subsystem != "" {
		e.subsystem = []byte("\x00SUBSYSTEM=" + subsystem + "\x00")
	}

	return e, nil
}

// Close ends it.
func (e *Events) Close() { unix.Close(e.fd) }

// Wait returns true after an event, when the socket has been drained, or when
// others is ready. It returns false at the deadline. Without a deadline it
// waits without limit.
func (e *Events) Wait(deadline time.Time, others ...unix.PollFd) bool {
	for {
		left := -1
		if !deadline.IsZero() {
			left = int(time.Until(deadline).Milliseconds()) + 1
			if left <= 0 {
				return false
			}
		}

		fds := append([]unix.PollFd{{Fd: int32(e.fd), Events: unix.POLLIN}}, others...)
		n, err := unix.Poll(fds, left)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			return false
		}

		// Some descriptors become ready only once.
		ready := slices.ContainsFunc(fds[1:], func(other unix.PollFd) bool {
			return other.Revents != 0
		})
		if concerns := e.drain(); concerns || ready {
			return true
		}
	}
}

// pause is how long Next waits when the kernel cannot tell it of events.
const pause = 10 * time.Second

// Next is Wait without a deadline. It returns false only when ctx has ended. While
// the kernel has no file or memory for it, it returns true after a pause: the
// caller observes the machine again.
func (e *Events) Next(ctx context.Context, others ...unix.PollFd) bool {
	if e.next(ctx, others) {
		return ctx.Err() == nil
	}

	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
	return ctx.Err() == nil
}

// next is Next, but returns false at once if it cannot wait.
func (e *Events) next(ctx context.Context, others []unix.PollFd) bool {
	end, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return false
	}
	defer unix.Close(end)

	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(woken)
		// Eight bytes to an eventfd of 0 do not fail.
		_, _ = unix.Write(end, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	})

	happened := e.Wait(time.Time{},
		append(others, unix.PollFd{Fd: int32(end), Events: unix.POLLIN})...)
	if !stop() {
		<-woken
	}

	return happened
}

// drain empties the socket. An overrun (ENOBUFS) is an event like any other:
// the caller observes the machine again.
func (e *Events) drain() (concerns bool) {
	var b [8192]byte
	for {
		n, _, err := unix.Recvfrom(e.fd, b[:], 0)
		switch {
		case errors.Is(err, unix.ENOBUFS):
			concerns = true
		case err != nil:
			return concerns
		case bytes.Contains(b[:n], e.subsystem):
			concerns = true
		}
	}
}
