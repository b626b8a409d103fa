package boot

import (
	"time"

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
	return clock.Set(right)
}
