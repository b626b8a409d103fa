package boot

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/uevent"
	"github.com/loam-os/loam/hint"
)

// Init is the right to act on the machine's mounts and disks. Only BecomeInit
// makes one.
type Init struct {
	console *Console
	steps   *stopwatch
	modules *moduleLoader
	events  *uevent.Events
	// kernel is the time from kernel start to Start; limit is the timer of
	// Limit.
	kernel time.Duration
	limit  *time.Timer
}

// Say shows a line on every console.
func (i *Init) Say(format string, args ...any) { i.console.Say(format, args...) }

// Log writes a line to the kernel log.
func (i *Init) Log(format string, args ...any) { i.console.Log(format, args...) }

// Done ends a step of the boot.
func (i *Init) Done(step string) { i.steps.done(step) }

// ErrNotInit says that this process must not boot a machine.
var ErrNotInit = errors.New("not PID 1 on a ramfs")

// BecomeInit returns the right to act if this process is PID 1 and its root is
// the kernel's initramfs, and ErrNotInit otherwise. It touches nothing.
func BecomeInit(console *Console) (*Init, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs("/", &fs); err != nil {
		return nil, fmt.Errorf("identify the root file system: %w", err)
	}
	if err := mayAct(os.Getpid(), int64(fs.Type)); err != nil {
		return nil, err
	}
	return &Init{console: console, steps: newStopwatch()}, nil
}

// AsInit runs main with the right to boot the machine. It returns only if this
// process has no such right. An error of main, or a panic, is shown and
// restarts the machine.
func AsInit(main func(*Init) error) error {
	i, err := BecomeInit(NewConsole("/dev", "/sys/class/tty/console/active"))
	if err != nil {
		return err
	}
	defer func() {
		if r := recover(); r != nil {
			i.Fail(fmt.Errorf("bug in loam: %v", r))
		}
	}()

	i.Fail(main(i))
	return nil
}

// mayAct reports whether the process is PID 1 on a ramfs or, as rootfs is on
// some kernels, a tmpfs.
func mayAct(pid int, fsType int64) error {
	if pid != 1 || (fsType != unix.RAMFS_MAGIC && fsType != unix.TMPFS_MAGIC) {
		return hint.With(
			fmt.Errorf("%w (PID %d, root file system type %#x)", ErrNotInit, pid, fsType),
			"`loam boot --facts FILE` decides without acting",
		)
	}
	return nil
}

// mount is a mount of the initramfs.
type mount struct {
	source, target, fstype string
	flags                  uintptr
	data                   string
}

// basic are the mounts that Observe needs, with the options that systemd gives
// the same mounts (systemd, src/shared/mount-setup.c).
var basic = [...]mount{
	{"proc", "/proc", "proc", unix.MS_NOSUID | unix.MS_NOEXEC | unix.MS_NODEV, ""},
	{"sysfs", "/sys", "sysfs", unix.MS_NOSUID | unix.MS_NOEXEC | unix.MS_NODEV, ""},
	{"devtmpfs", "/dev", "devtmpfs", unix.MS_NOSUID, "mode=0755"},
	{"tmpfs", "/run", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=0755,size=20%,nr_inodes=800k"},
}

// MountBasic mounts /proc, /sys, /dev and /run.
func (i *Init) MountBasic() error {
	for _, m := range basic {
		if err := m.apply(); err != nil {
			return err
		}
	}
	return nil
}

// mountEFIVariables makes the firmware's variables readable. Nothing depends on
// them: a machine that was not started by UEFI has none, and the kernel may
// lack the module.
func (i *Init) mountEFIVariables(modules *moduleLoader) {
	m := mount{
		source: "efivarfs",
		target: "/sys/firmware/efi/efivars",
		fstype: "efivarfs",
		flags:  unix.MS_NOSUID | unix.MS_NOEXEC | unix.MS_NODEV,
	}
	if _, err := os.Stat(m.target); err != nil {
		return
	}

	if err := modules.load("efivarfs"); err != nil {
		i.console.Log("%v", err)
		return
	}

	if err := m.apply(); err != nil {
		i.console.Log("%v", err)
	}
}

func (m mount) apply() error {
	if err := os.MkdirAll(m.target, 0o755); err != nil {
		return fmt.Errorf("mount point: %w", err)
	}
	err := unix.Mount(m.source, m.target, m.fstype, m.flags, m.data)
	if err != nil && !(m.fstype == "devtmpfs" && errors.Is(err, unix.EBUSY)) {
		return fmt.Errorf("mount %s (%s) on %s: %w", m.source, m.fstype, m.target, err)
	}
	return nil
}
