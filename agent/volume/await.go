package volume

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/uevent"
)

// Await mounts the data volume that the node has had as soon as its disk is there, and returns when it, or what another has mounted, is at
// Mountpoint. tell is told what it waits for.
func (n Node) Await(ctx context.Context, tell func(error)) error {
	events, err := uevent.Open(uevent.Kernel|uevent.Udev, "block")
	if err != nil {
		return err
	}
	defer events.Close()
	mounts, err := os.Open("/proc/self/mountinfo") // poll(2) tells of changes by POLLPRI (proc_pid_mountinfo(5)).
	if err != nil {
		return fmt.Errorf("watch the mounts: %w", err)
	}
	defer mounts.Close()
	said := ""
	for {
		s, err := n.Use(ctx)
		if s.Device != "" {
			return err
		}
		if err == nil {
			return errors.New("no data volume is claimed")
		}
		if err.Error() != said {
			said = err.Error()
			tell(err)
		}
		if !events.Next(ctx, unix.PollFd{Fd: int32(mounts.Fd()), Events: unix.POLLPRI}) {
			return ctx.Err()
		}
	}
}

// Look says how the volume that is mounted is, and lets it grow with its disk.
func (n Node) Look(ctx context.Context) (State, error) {
	s, err := n.Mounted()
	if err != nil || s.Device == "" {
		return s, err
	}
	if s.Size == 0 {
		return s, fmt.Errorf("the disk of the data volume, %s, is gone\nhint: plug it in again and restart the machine: what is mounted does not come back by itself", s.Device)
	}
	record, _, err := ReadRecord(n.Dir.Root().FS())
	if err != nil {
		return s, err
	}
	if _, choice, err := n.choose(record); err == nil && choice.Device == s.Device && choice.Grow {
		s.Warnings = n.grow(ctx, choice)
	}
	return s, nil
}
