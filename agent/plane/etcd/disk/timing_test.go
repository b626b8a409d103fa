package disk

import (
	"testing"
	"time"
)

func TestTimingOf(t *testing.T) {
	const ms = time.Millisecond
	for _, row := range []struct {
		name     string
		p99      time.Duration
		election time.Duration
	}{
		{"a disk that was not measured", 0, 1000 * ms},
		{"a fast disk", 9999 * time.Microsecond, 1000 * ms},
		{"a disk that etcd's own timing is too short for", 10 * ms, 2000 * ms},
		{"a magnetic disk", 19 * ms, 2000 * ms},
		{"a memory card", 20 * ms, 5000 * ms},
		{"a disk that is allowed to be too slow", 3 * time.Second, 5000 * ms},
	} {
		if got := TimingOf(row.p99); got.Election != row.election {
			t.Errorf("%s: %s", row.name, got)
		}
	}
}

// TestTimingIsMonotone: a slower disk never has a shorter timing, there are few of
// them, and etcd starts with each.
func TestTimingIsMonotone(t *testing.T) {
	if TimingOf(0) != DefaultTiming {
		t.Errorf("a disk that was not measured: %s", TimingOf(0))
	}

	last := TimingOf(0)
	seen := map[Timing]bool{last: true}
	for p99 := time.Duration(0); p99 <= 10*SlowFsync; p99 += 100 * time.Microsecond {
		got := TimingOf(p99)
		if got.Heartbeat < last.Heartbeat {
			t.Errorf("%s: %s after %s", p99, got, last)
		}
		if got.Election < 5*got.Heartbeat || got.Election >= 50*time.Second {
			t.Errorf("%s: etcd refuses %s", p99, got)
		}
		seen[got] = true
		last = got
	}

	if len(seen) != 3 {
		t.Errorf("%d timings", len(seen))
	}
}
