// Package liveness watches whether what runs the pods answers: a kubelet or a
// containerd that hangs is up for systemd, which therefore does not restart it.
//
// The loop restarts what hangs.
package liveness

// Standing says whether a unit is to be probed.
type Standing int

const (
	// Absent is not part of the current generation.
	Absent Standing = iota
	// Down is part of it and not up, or in the hands of a change.
	Down
	// Up is to answer.
	Up
)

// Health is what is known of one unit. The zero Health has no failure.
type Health struct {
	// Failures are probes in a row that failed while the unit was up; a restart
	// counts as the first of the next row.
	Failures int

	// Restarts are those since the unit last answered.
	Restarts int

	// Reported says that the last word on the unit was a bad one.
	Reported bool
}

// Word is what there is to do or to say about a unit.
type Word string

const (
	Nothing Word = ""
	// Failing is the first failure.
	Failing Word = "failing"
	// Restart is for a unit that goes on failing.
	Restart Word = "restart"
	// Recovered is the first answer after failures.
	Recovered Word = "recovered"
)

// A unit is restarted when it has failed for a minute, which are two periods of
// a probe. Each restart that does not help doubles that, up to eight minutes: a
// kubelet that takes two minutes to come up must get them.
const (
	patience    = 2
	maxDoubling = 3
)

// Next takes in one look at a unit; failed is what a probe said of one that is
// Up.
func Next(h Health, s Standing, failed error) (Health, Word) {
	switch {
	case s == Absent:
		return Health{}, Nothing
	case s == Down: // What it does when it is back begins a new row.
		h.Failures = 0
		return h, Nothing
	case failed == nil && h.Reported:
		return Health{}, Recovered
	case failed == nil:
		return Health{}, Nothing
	}

	h.Failures++
	switch {
	case !h.Reported:
		h.Reported = true
		return h, Failing
	case h.Failures > patience<<min(h.Restarts, maxDoubling):
		h.Failures = 1
		h.Restarts += 1
		return h, Restart
	}

	return h, Nothing
}
