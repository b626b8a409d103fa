package loop

import (
	"context"
	"slices"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/limits"
	"github.com/loam-os/loam/agent/status"
)

// observeLimits observes the limits of the kernel, and publishes which are used
// up.
func (r *runner) observeLimits(ctx context.Context) {
	before := r.node.state.Facts.Limits
	now := limits.Decide(before, r.node.host.Limits(before))
	if len(now) > 0 {
		r.node.alarms.soon(aliveAlarm, limitInterval)
	}
	if slices.Equal(before, now) {
		return
	}

	r.node.state.Facts.Limits = now
	for _, l := range now {
		if !slices.Contains(before, l) {
			r.node.log.Warn("limit used up", zap.String("problem", l.Problem))
			r.storages.report.event("LimitReached", l.Problem)
		}
	}
	for _, l := range before {
		same := func(other status.Limit) bool { return other.Name == l.Name }
		if !slices.ContainsFunc(now, same) {
			r.node.log.Info("limit no longer used up", zap.String("limit", l.Name))
			r.node.alarms.soon(resumeAlarm, 0) // What it kept from being done.
		}
	}
	if r.node.published.any {
		r.node.show(ctx)
	}
}
