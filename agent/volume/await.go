package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/mount"
	"github.com/loam-os/loam/agent/uevent"
	"github.com/loam-os/loam/hint"
)

// pollInterval is how long Await waits for a change before it tries again.
const pollInterval = 30 * time.Second

// Await mounts the volume that the node has had before as soon as its disk
// is there. It returns when a volume is mounted at its mountpoint, by Await or by
// another process, when no volume is claimed, or when ctx ends. It calls notify
// with what it waits for, once for each reason.
func (v Volume) Await(ctx context.Context, notify func(error)) error {
	events, err := uevent.Open(uevent.Kernel|uevent.Udev, "block")
	if err != nil {
		return err
	}
	defer events.Close()

	mounts, err := OpenMounts()
	if err != nil {
		return err
	}
	defer mounts.Close()

	change := func(ctx context.Context) { events.Next(ctx, mounts.Poll()) }
	return await(ctx, v.Mount, change, notify)
}

// await is Await with the ways to mount the volume and to wait for a change of
// the disks or mounts.
func await(
	ctx context.Context,
	mount func(context.Context) (State, error),
	change func(context.Context),
	notify func(error),
) error {
	notified := ""
	for {
		s, err := mount(ctx)
		if s.Device != "" || err == nil {
			return err
		}

		if text := hint.Text(err); text != notified {
			notified = text
			notify(err)
		}

		// Events are worth nothing while the volume does not work: the attempt
		// to mount it opens the disk, which causes some.
		wait, stop := context.WithTimeout(ctx, pollInterval)
		if errors.Is(err, ErrNone) || errors.Is(err, ErrNew) {
			change(wait)
		} else {
			<-wait.Done()
		}

		stop()

		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// MountTable reports changes of the mounts.
type MountTable struct{ *os.File }

// OpenMounts opens the mount table of this process.
func OpenMounts() (MountTable, error) {
	f, err := os.Open("/" + mount.Path)
	if err != nil {
		return MountTable{}, fmt.Errorf("watch the mounts: %w", err)
	}
	return MountTable{f}, nil
}

// Poll returns the descriptor for poll(2), which reports each change once
// (proc_pid_mountinfo(5)).
func (m MountTable) Poll() unix.PollFd {
	return unix.PollFd{Fd: int32(m.Fd()), Events: unix.POLLPRI}
}

// Refresh returns the state of a mounted volume that had size bytes before, and
// grows it if its disk has grown.
func (v Volume) Refresh(ctx context.Context, size int64) (State, error) {
	s, err := v.Mounted()
	switch {
	case err != nil:
		return s, err
	case s.Device == "":
		return s, hint.With(fmt.Errorf("the %s is not mounted any more", v.For.Name),
			"restart the machine: %s may be running without it", v.For.User)
	case s.Size == 0:
		return s, hint.With(fmt.Errorf("the disk of the %s, %s, is gone", v.For.Name, s.Device),
			"plug it in again and restart the machine: what is mounted does not come "+
				"back by itself")
	case s.Size > size && s.Mapped != "":
		s.Warnings = []string{"the disk of the " + v.For.Name + " has grown: the volume, which is " +
			"encrypted, grows when the machine restarts"}
	case s.Size > size:
		s.Warnings = v.grow(ctx, Choice{Device: s.Device, FileSystem: s.FileSystem})
	}

	return s, nil
}

// Pending returns what the volume waits for while it is not mounted: nil for
// the process that mounts it, ErrNew for the process that makes it.
func (v Volume) Pending() error {
	record, claimed, err := v.For.ReadRecord(v.Dir.Root().FS())
	if err != nil || !claimed {
		return err
	}
	_, choice, err := v.choose(record)
	if err == nil && (choice.Action != ToUse || !record.Made) {
		return ErrNew
	}
	return err
}
