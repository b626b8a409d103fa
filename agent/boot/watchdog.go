package boot

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// watchdogTime is how long /init may take, and then the start of systemd, which
// takes the watchdog over with its own time (RuntimeWatchdogSec=).
const watchdogTime = 3 * time.Minute

const watchdogDevice = "/dev/watchdog0"

// Limit restarts a machine whose /init does not come to an end. What hangs is a
// system call; other threads of this process go on. A restart takes a try from
// a system that the loader counts.
func (i *Init) Limit() {
	i.limit = time.AfterFunc(watchdogTime, func() {
		i.console.Say("no system after %s: restarting", watchdogTime)
		_ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
	})
}

// Alive has the time of Limit begin anew: for steps that take long, and have
// come further.
func (i *Init) Alive() { i.limit.Reset(watchdogTime) }

// armWatchdog has the machine restart if its kernel hangs, and then if systemd
// does not take the watchdog over: the hardware's if its driver is there by
// now, else a timer of the kernel.
func (i *Init) armWatchdog() {
	if _, err := os.Stat(watchdogDevice); err != nil {
		if err := i.modules.load("softdog"); err != nil {
			i.console.Log("no watchdog: %v", err)
			return
		}
	}
	if err := startWatchdog(watchdogDevice, watchdogTime); err != nil {
		i.console.Log("%v", err)
	}
}

// feedEvery is less than any watchdog's time.
const feedEvery = 5 * time.Second

// startWatchdog starts a watchdog and feeds it for as long as this process is
// /init: Limit is for that. It goes on when its device is closed without the
// letter V before, as exec does (Documentation/watchdog/watchdog-api.rst).
func startWatchdog(device string, after time.Duration) error {
	f, err := os.OpenFile(device, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("start the watchdog: %w", err)
	}

	// One that cannot wait so long keeps its own time.
	_ = unix.IoctlSetPointerInt(int(f.Fd()), unix.WDIOC_SETTIMEOUT, int(after.Seconds()))
	go func() {
		for {
			if _, err := f.Write([]byte{0}); err != nil {
				return
			}
			time.Sleep(feedEvery)
		}
	}()

	return nil
}
