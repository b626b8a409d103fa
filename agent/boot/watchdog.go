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
// system call; other threads of this process go on. A restart takes a try from a
// system that the loader counts.
func (i *Init) Limit() {
	time.AfterFunc(watchdogTime, func() {
		i.console.Say("no system after %s: restarting", watchdogTime)
		_ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
	})
}

// armWatchdog has the machine restart if systemd does not take its watchdog over:
// the hardware's if its driver is there by now, else a timer of the kernel.
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

// startWatchdog starts a watchdog, which goes on when its device is closed without
// the letter V before (Documentation/watchdog/watchdog-api.rst).
func startWatchdog(device string, after time.Duration) error {
	f, err := os.OpenFile(device, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("start the watchdog: %w", err)
	}
	defer f.Close()
	// One that cannot wait so long keeps its own time.
	_ = unix.IoctlSetPointerInt(int(f.Fd()), unix.WDIOC_SETTIMEOUT, int(after.Seconds()))
	return nil
}
