package disk

import (
	"fmt"
	"slices"
	"time"
)

// Timing are the intervals of etcd that follow from its disk. A leader writes its
// log between two heartbeats, and a member that hears nothing from it begins an
// election, so a slow disk needs both to be longer
// (https://etcd.io/docs/v3.6/tuning).
type Timing struct {
	// Heartbeat is the interval of heartbeats, and Election how long a member
	// waits for one.
	Heartbeat, Election time.Duration
}

// DefaultTiming is etcd's own, which it has without flags.
var DefaultTiming = Timing{100 * time.Millisecond, time.Second}

const (
	// elections is how many heartbeats make an election timeout, as in etcd's own
	// timing. etcd wants five at least, and 50 s at most
	// (etcd/server/embed/config.go, Validate).
	elections = 10

	// syncs is how many syncs there is time for between two heartbeats.
	syncs = 10
)

// heartbeats are few, so that a small difference between two measurements is none
// in the flags of etcd, for which it would have to restart. The last one is for all
// slower disks.
var heartbeats = []time.Duration{
	DefaultTiming.Heartbeat, 200 * time.Millisecond, 500 * time.Millisecond,
}

// TimingOf returns the timing for a disk with that 99th percentile of the time of a
// sync: [DefaultTiming] below 10 ms, and for a disk that was not measured, which is
// 0.
func TimingOf(p99 time.Duration) Timing {
	i := slices.IndexFunc(heartbeats, func(h time.Duration) bool { return p99 < h/syncs })
	if i < 0 {
		i = len(heartbeats) - 1
	}
	return Timing{heartbeats[i], elections * heartbeats[i]}
}

// String returns the timing as "heartbeat 200 ms, election 2000 ms".
func (t Timing) String() string {
	return fmt.Sprintf("heartbeat %s, election %s",
		FormatDuration(t.Heartbeat), FormatDuration(t.Election))
}
