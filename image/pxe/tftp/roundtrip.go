package tftp

import "time"

// roundTrip is how long a client takes to answer, as TCP reckons it (RFC 6298).
type roundTrip struct {
	known             bool
	mean, variability time.Duration
}

// measured takes an answer to a packet that was sent once: an answer to a
// repeated packet may belong to either copy (Karn's algorithm).
func (r *roundTrip) measured(d time.Duration) {
	if !r.known {
		r.known = true
		r.mean = d
		r.variability = d / 2
		return
	}
	r.variability += ((r.mean - d).Abs() - r.variability) / 4
	r.mean += (d - r.mean) / 8
}

// wait is the time after which a packet, or its answer, is lost in all
// likelihood.
func (r *roundTrip) wait() time.Duration {
	if !r.known {
		return firstWait
	}
	return min(max(r.mean+4*r.variability, leastWait), mostWait)
}
