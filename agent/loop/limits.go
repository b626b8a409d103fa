package loop

import (
	"slices"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/limits"
	"github.com/loam-os/loam/agent/status"
)

// limitsObserved takes in how much of the kernel's limits is in use, and publishes
// which are used up.
func limitsObserved(s State, usages []limits.Usage) (State, []Effect) {
	before := s.Facts.Limits
	now := limits.Decide(before, usages)
	var effects []Effect
	if len(now) > 0 {
		effects = append(effects, SetAlarm{Which: aliveAlarm, In: limitInterval})
	}
	if slices.Equal(before, now) {
		return s, effects
	}

	s.Facts.Limits = now
	for _, l := range now {
		if !slices.Contains(before, l) {
			effects = append(effects,
				warning("limit used up", zap.String("problem", l.Problem)),
				Event{Reason: "LimitReached", Message: l.Problem})
		}
	}
	for _, l := range before {
		same := func(other status.Limit) bool { return other.Name == l.Name }
		if !slices.ContainsFunc(now, same) {
			effects = append(effects,
				info("limit no longer used up", zap.String("limit", l.Name)),
				SetAlarm{Which: resumeAlarm}) // What it kept from being done.
		}
	}
	if s.Published.Any {
		effects = append(effects, Show{})
	}
	return s, effects
}
