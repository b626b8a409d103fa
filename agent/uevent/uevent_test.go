package uevent

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestWait: events of other subsystems do not count, unless something else
// happened at the same time, which may be reported only once.
func TestWait(t *testing.T) {
	for _, test := range []struct {
		name, message string
		other, want   bool
	}{
		{
			name:    "a disk",
			message: "add@/devices/x\x00ACTION=add\x00SUBSYSTEM=block\x00",
			want:    true,
		},
		{name: "a network interface", message: "add@/devices/y\x00ACTION=add\x00SUBSYSTEM=net\x00"},
		{
			name:    "one whose name has block in it",
			message: "add@/devices/z\x00SUBSYSTEM=blockade\x00",
		},
		{name: "nothing, and something else", other: true, want: true},
		{
			name:    "a network interface, and something else",
			message: "add@/devices/y\x00SUBSYSTEM=net\x00",
			other:   true,
			want:    true,
		},
		{name: "nothing"},
	} {
		t.Run(test.name, func(t *testing.T) {
			fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK, 0)
			if err != nil {
				t.Fatal(err)
			}

			e := &Events{fd: fds[0], subsystem: []byte("\x00SUBSYSTEM=block\x00")}
			defer e.Close()
			defer unix.Close(fds[1])

			if test.message != "" {
				if err := unix.Sendto(fds[1], []byte(test.message), 0, nil); err != nil {
					t.Fatal(err)
				}
			}

			value := uint(0)
			if test.other {
				value = 1
			}

			other, err := unix.Eventfd(value, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(other)

			got := e.Wait(time.Now().Add(20*time.Millisecond),
				unix.PollFd{Fd: int32(other), Events: unix.POLLIN})
			if got != test.want {
				t.Errorf("Wait: %v", got)
			}
		})
	}
}
