package progress

import (
	"math"
	"time"
)

const (
	// window is the time whose average the rate is, so that the time left follows
	// a disk or a network that becomes slower, and does not jump.
	window = 10 * time.Second
	// sampleTime is the least time between two samples: what is written comes in
	// bursts.
	sampleTime = time.Second / 2
)

// rate is a moving average of the bytes a second: until the window is over, the
// plain average, and from then on an exponential one.
type rate struct {
	perSecond float64

	began, sampled time.Time
	counted        int64 // at the time sampled
}

// begin returns the rate of work of which done bytes were done before.
func begin(now time.Time, done int64) rate {
	return rate{began: now, sampled: now, counted: done}
}

// count takes a sample if it is time for one.
func (r *rate) count(now time.Time, done int64) {
	passed := now.Sub(r.sampled)
	if passed < sampleTime {
		return
	}

	latest := float64(max(done-r.counted, 0)) / passed.Seconds()
	weight := passed.Seconds() / min(now.Sub(r.began), window).Seconds()
	r.perSecond += min(weight, 1) * (latest - r.perSecond)
	r.sampled = now
	r.counted = done
}

// left returns the time that is left for more bytes, in whole seconds, rounded up.
// The rate must not be 0.
func (r *rate) left(more int64) time.Duration {
	const longest = 99 * time.Hour // A stalled work has no end in sight.
	seconds := math.Ceil(float64(more) / r.perSecond)
	return time.Duration(min(seconds, longest.Seconds())) * time.Second
}
