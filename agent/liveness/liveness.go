package liveness

// Standing is whether a unit should be probed.
type Standing int

const (
	// Absent units are not part of the current generation.
	Absent Standing = iota
	// Down units are part of it but not up, or a change is being applied.
	Down
	// Up units should answer.
	Up
)

// Health is the history of one unit. The zero Health has no failure.
type Health struct {
	// Failures counts consecutive failed probes while the unit was up; a
	// restart counts as the first failure of the next series.
	Failures int

	// Restarts counts restarts since the unit last answered.
	Restarts int

	// Reported is set if the last report about the unit was a failure.
	Reported bool
}

// Word is what to do or to report about a unit.
type Word string

const (
	Nothing Word = ""
	// Failing is the first failure.
	Failing Word = "failing"
	// Restart is for a unit that keeps failing.
	Restart Word = "restart"
	// Recovered is the first answer after failures.
	Recovered Word = "recovered"
)

// A unit is restarted when it has failed for a minute, which is two periods of
// a probe, or for as long as [Watch].Patience gives it. Each restart that does not
// help doubles that, up to eight times: a kubelet that takes two minutes to come up
// must get them.
const (
	maxFailures = 2
	maxDoubling = 3
)

// Next adds one observation of a unit; failed is the result of the probe if it
// is Up. A unit may fail so many times in a row before it is restarted.
func Next(h Health, s Standing, failed error, patience int) (Health, Word) {
	switch {
	case s == Absent:
		return Health{}, Nothing
	case s == Down: // Its failures after that are a new series.
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
