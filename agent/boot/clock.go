package boot

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/clock"
)

// setClock sets a clock that shows a time before the image was built to that
// time. systemd then only moves it forward, to the last time that timesyncd
// recorded.
func (*Init) setClock() error {
	built, err := clock.Built()
	if err != nil {
		return err
	}

	now := time.Now()
	right := clock.Credible(now, built)
	if right.Equal(now) {
		return nil
	}

	ts := unix.NsecToTimespec(right.UnixNano())
	if err := unix.ClockSettime(unix.CLOCK_REALTIME, &ts); err != nil {
		return fmt.Errorf("set the clock to %s: %w", right.Format(time.DateOnly), err)
	}

	return nil
}
