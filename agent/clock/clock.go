// Package clock knows a time that no clock of a node can be before.
//
// /init sets a clock that is behind the date of the kernel, or 15 years ahead
// of it: a PC says 2070 for 1970, and systemd would go back to its own date.
// After that systemd sets the clock forward only, to the time that timesyncd
// recorded last.
package clock

import (
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Built is when the image was built, as far as it knows: the date of its
// kernel, which is the latest of its inputs that says one. Builds of the same
// inputs are the same whenever they are made.
func Built() (time.Time, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return time.Time{}, fmt.Errorf("uname: %w", err)
	}
	return kernelDate(unix.ByteSliceToString(name.Version[:]))
}

// ahead is how far a clock may be ahead of the image: systemd believes none
// beyond that of its own (src/shared/clock-warp.c), and would set it to when
// systemd was built. The clock of a PC knows two digits of the year: after its
// battery has failed, 1970 is 2070.
const ahead = 15 * 365 * 24 * time.Hour

// Credible is now, or built where the clock cannot be right: before the image,
// or long after it.
func Credible(now, built time.Time) time.Time {
	if now.Before(built) || now.Sub(built) > ahead {
		return built
	}
	return now
}

// kernelDate is that of a version, `uname -v`, as Debian writes it: "#1 SMP
// PREEMPT_DYNAMIC Debian 6.12.57-1 (2025-11-05)".
func kernelDate(version string) (time.Time, error) {
	_, date, _ := strings.Cut(version, "(")
	at, err := time.Parse(time.DateOnly+")", date)
	if err != nil {
		return time.Time{}, fmt.Errorf("kernel %q: no date at its end", version)
	}
	return at, nil
}
