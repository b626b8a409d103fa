// Package rtc compares the clock of a node with the clock of its hardware, which
// may have been wrong once, or is wrong now.
//
//	Observe --Facts--> Doubt: what operators are told
//	              +--> Reset: the time that `loam clock --from-hardware` sets
//
// systemd never starts with a time before the last one that timesyncd recorded,
// in the time of change of [Recorded]. So a node that was started once with a
// clock of 2038 stays there, also when its hardware's clock is right again,
// until a time server answers. [Set] takes both back.
package rtc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/clock"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// Recorded is the file whose time of change is the last time that timesyncd
// recorded (systemd-timesyncd.service(8)).
const Recorded = "var/lib/systemd/timesync/clock"

// Facts are the times of a node.
type Facts struct {
	// Now is the time of its clock, Built the date of its kernel.
	Now, Built time.Time
	// Hardware is the time of the hardware's clock; zero if it has none.
	Hardware time.Time
	// Recorded is the last time that was recorded; zero if none was.
	Recorded time.Time
	// Synchronized says that a time server has set the clock in this boot.
	Synchronized bool
}

// Observe returns the times of the node with that root directory.
func Observe(root *os.Root, now, built time.Time) Facts {
	f := Facts{
		Now:          now,
		Built:        built,
		Hardware:     hardware(root.FS()),
		Synchronized: isSynchronized(),
	}
	if info, err := root.Stat(Recorded); err == nil {
		f.Recorded = info.ModTime()
	}
	return f
}

// hardware returns the time of the clock that the kernel sets its own from, or
// of the first one (Documentation/ABI/testing/sysfs-class-rtc).
func hardware(root fs.FS) time.Time {
	const class = "sys/class/rtc"
	read := func(name, file string) string {
		text, _ := fs.ReadFile(root, path.Join(class, name, file))
		return strings.TrimSpace(string(text))
	}

	var names []string
	clocks, _ := fs.ReadDir(root, class)
	for _, c := range clocks {
		names = append(names, c.Name())
	}
	setsSystem := func(name string) bool { return read(name, "hctosys") == "1" }
	if i := slices.IndexFunc(names, setsSystem); i > 0 {
		names = names[i:]
	}
	if len(names) == 0 {
		return time.Time{}
	}

	seconds, err := strconv.ParseInt(read(names[0], "since_epoch"), 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(seconds, 0)
}

// isSynchronized reports whether a time server has set the clock: the kernel's
// error stays below 16 s then (adjtimex(2)), by which timedatectl goes, too.
func isSynchronized() bool {
	var state unix.Timex
	_, err := unix.Adjtimex(&state)
	return err == nil && state.Maxerror < 16_000_000
}

// tolerance is how far the clocks may be apart: a hardware's clock may show the
// time of any zone.
const tolerance = 24 * time.Hour

// Doubt returns why the clock of a node may be wrong, nil if nothing says so.
func Doubt(f Facts) *status.WrongClock {
	ahead := f.Now.Sub(f.Hardware)
	switch {
	case f.Synchronized, f.Hardware.IsZero(), max(ahead, -ahead) <= tolerance:
		return nil
	case !isCredible(f):
		return doubt(
			fmt.Sprintf("the hardware's clock says %s, which cannot be right; the node goes on "+
				"with %s until a time server answers", date(f.Hardware), date(f.Now)),
			"name a time server in machine.yaml (network.interfaces[].ntp); the battery of the "+
				"machine may be empty",
		)
	case ahead > 0:
		return doubt(
			fmt.Sprintf("the hardware's clock says %s, and the node uses %s, as it has recorded a "+
				"later time than the hardware's; a time server corrects it", date(f.Hardware),
				date(f.Now)),
			"if the hardware's clock is right: `loam clock --from-hardware`",
		)
	}
	return nil
}

func doubt(problem, hint string) *status.WrongClock {
	return &status.WrongClock{
		Problem: problem,
		Hint:    hint,
		Code:    fault.ClockDoubtful,
	}
}

func date(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// isCredible reports whether the hardware's clock may be right.
func isCredible(f Facts) bool { return clock.Credible(f.Hardware, f.Built).Equal(f.Hardware) }

// Reset returns the time of the hardware's clock, for [Set], or why the node
// should not have it.
func Reset(f Facts) (time.Time, error) {
	refuse := func(why, what string) (time.Time, error) {
		return time.Time{}, hint.With(fault.With(errors.New(why), fault.ClockUnfit), "%s", what)
	}
	switch {
	case f.Synchronized:
		return refuse("a time server has set the clock", "`timedatectl timesync-status` shows which")
	case f.Hardware.IsZero():
		return refuse("this machine has no clock of the hardware", "`date --set TIME` sets the clock")
	case !isCredible(f):
		return refuse("the hardware's clock says "+date(f.Hardware)+", which cannot be right",
			"`date --set TIME` sets the clock; the battery of the machine may be empty")
	}
	return f.Hardware, nil
}

// Set sets the clock to a time, and makes it the recorded one, which must not be
// later at the next start. setClock is [clock.Set]. After a power cut between
// the two, it has to be done again.
func Set(root *os.Root, to time.Time, setClock func(time.Time) error) error {
	if err := setClock(to); err != nil {
		return err
	}

	f, err := root.Open(Recorded)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("take back the recorded time: %w", err)
	}
	defer f.Close()

	if err := root.Chtimes(Recorded, to, to); err != nil {
		return fmt.Errorf("take back the recorded time: %w", err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("take back the recorded time: %w", err)
	}
	return nil
}
