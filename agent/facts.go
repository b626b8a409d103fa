package agent

import (
	"time"

	"golang.org/x/sys/unix"
)

// Uptime is the time since kernel start, suspend included (CLOCK_BOOTTIME).
func Uptime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0 // Every kernel since 2.6.39 has the clock.
	}
	return time.Duration(ts.Nano())
}
