// Package clock bounds the time that a node's clock can show.
//
// /init corrects a clock that is before the date of the kernel, or 15 years
// after it: a PC shows 2070 for 1970, and systemd would reset it to the date of
// its own build. Later systemd only sets the clock forward, to the time that
// timesyncd recorded last.
package clock

import (
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Built approximates when the image was built by the date of its kernel, which
// is the latest date among its inputs. Builds of the same inputs are the same
// at any time.
func Built() (time.Time, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return time.Time{}, fmt.Errorf("uname: %w", err)
	}
	return kernelDate(unix.ByteSliceToString(name.Version[:]))
}

// ahead is how far a clock may be ahead of the image. systemd accepts no clock
// further ahead of its own build (src/shared/clock-warp.c), and would set it to
// that. The clock of a PC has two digits for the year: after its battery has
// failed, 1970 is 2070.
const ahead = 15 * 365 * 24 * time.Hour

// Credible returns now, or built if the clock cannot be right: before the
// image, or long after it.
func Credible(now, built time.Time) time.Time {
	if now.Before(built) || now.Sub(built) > ahead {
		return built
	}
	return now
}

// Set sets the clock of this machine.
func Set(to time.Time) error {
	ts := unix.NsecToTimespec(to.UnixNano())
	if err := unix.ClockSettime(unix.CLOCK_REALTIME, &ts); err != nil {
		return fmt.Errorf("set the clock to %s: %w", to.UTC().Format(time.DateOnly), err)
	}
	return nil
}

// kernelDate matches the date in the version of a Debian kernel, `uname -v`:
// "#1 SMP PREEMPT_DYNAMIC Debian 6.12.57-1 (2025-11-05)".
func kernelDate(version string) (time.Time, error) {
	_, date, _ := strings.Cut(version, "(")
	at, err := time.Parse(time.DateOnly+")", date)
	if err != nil {
		return time.Time{}, fmt.Errorf("kernel %q: no date at its end", version)
	}
	return at, nil
}
