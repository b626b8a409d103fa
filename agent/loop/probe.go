package loop

import (
	"context"
	"slices"
	"time"

	"github.com/loam-os/loam/agent/config"
)

// Probe what did not answer.
var Probe = &Kind{
	name:    "probe",
	begin:   beginProbe,
	perform: performProbe,
	after:   afterProbe,
}

func beginProbe(s State, _ Step, _ time.Duration) (State, []Effect) {
	s.Due.Probe = false
	return s, nil
}

func performProbe(ctx context.Context, w worker, step Step) Result {
	return Result{Answers: slices.ContainsFunc(step.Probes, func(p config.Probe) bool {
		return w.host.Reach(ctx, p) == nil
	})}
}

func afterProbe(s State, _ Step, r Result, _ time.Duration) (State, []Effect) {
	s.Due.Read = s.Due.Read || r.Answers
	if r.Answers || len(s.Facts.Waits) == 0 {
		return s, nil
	}
	return s, []Effect{SetAlarm{Which: probeAlarm, In: probeDelay}}
}
