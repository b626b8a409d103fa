package turns

import "time"

const (
	// postponePause is how long a node waits after its first postponement. That
	// doubles with each, up to maxPostponePause.
	postponePause    = 5 * time.Minute
	maxPostponePause = 2 * time.Hour

	// maxLast is for how long a node goes last after its pause.
	maxLast = 30 * time.Minute
)

// Postponed is a change that was postponed. Its node is the last of the pool
// then.
type Postponed struct {
	Target string `json:"target"`

	// Why is the reason, Times how often the change was postponed. Until is when
	// the node asks for a turn again.
	Why   string    `json:"why"`
	Times int       `json:"times"`
	Until time.Time `json:"until"`
}

// next returns p after another postponement.
func (p Postponed) next(target, why string, now time.Time) Postponed {
	if p.Target != target {
		p.Times = 0
	}

	pause := postponePause
	for range p.Times {
		pause = min(2*pause, maxPostponePause)
	}
	return Postponed{
		Target: target,
		Why:    why,
		Times:  p.Times + 1,
		Until:  now.Add(pause),
	}
}

// holds reports whether the node must not ask for a turn for target yet. A time
// that is too far away is one of a clock that was set back since.
func (p Postponed) holds(target string, now time.Time) bool {
	return p.Target == target && now.Before(p.Until) && p.Until.Sub(now) <= maxPostponePause
}

// isLast reports whether the node goes last with its change to target. It does
// not wait for ever, in a pool whose ledger always changes.
func (p Postponed) isLast(target string, now time.Time) bool {
	return p.Target == target && now.Before(p.Until.Add(maxLast)) &&
		p.Until.Sub(now) <= maxPostponePause
}

// postponed returns what was postponed last: a system, or a configuration if the
// version is "". Each has a pause of its own, so a node that waits with both does
// not begin them in circles.
func (t *Turn) postponed(version string) *Postponed {
	if version != "" {
		return &t.PostponedSystem
	}
	return &t.Postponed
}
