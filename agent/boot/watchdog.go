package boot

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// watchdogTime is how long /init may take, and after it the start of systemd,
// which takes over the watchdog with its own time (RuntimeWatchdogSec=).
const watchdogTime = 3 * time.Minute

const watchdogDevice = "/dev/watchdog0"

// Limit restarts the machine if /init does not finish in watchdogTime. It works
// while a system call hangs, because other threads of this process continue. A
// restart uses up one of the tries that the loader counts.
func (i *Init) Limit() {
	i.limit = time.AfterFunc(watchdogTime, func() {
		i.console.Say("no system after %s: restarting", watchdogTime)
		_ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
	})
}

// Alive restarts the time of Limit, for long steps that make progress.
func (i *Init) Alive() { i.limit.Reset(watchdogTime) }

// armWatchdog starts a watchdog that restarts the machine if its kernel hangs,
// or if systemd does not take over the watchdog. It is the hardware's if its
// driver is loaded already, else a timer of the kernel.
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

// feedEvery is shorter than the time of any watchdog.
const feedEvery = 5 * time.Second

// startWatchdog starts a watchdog and feeds it for as long as this process is
// /init; Limit bounds that. The watchdog stays active when its device is closed
// without writing the letter V, as exec does
// (Documentation/watchdog/watchdog-api.rst).
func startWatchdog(device string, after time.Duration) error {
	f, err := os.OpenFile(device, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("start the watchdog: %w", err)
	}

	// Best effort: a watchdog that does not support this time keeps its own.
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
