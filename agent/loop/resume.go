package loop

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/apply"
)

// Resume completes an apply that was cut off.
var Resume = &Kind{
	name:    "resume",
	begin:   beginResume,
	perform: performResume,
	after:   afterResume,
}

func beginResume(s State, _ Step, _ time.Duration) (State, []Effect) {
	s.Due.Resume = false
	s.Change.Resuming = true
	return s, nil
}

func performResume(ctx context.Context, w worker, step Step) (r Result) {
	r.Resumed, r.Err = w.engine.Resume(ctx)
	r.Node = w.observe(step)
	return r
}

// afterResume notes what keeps the node from being its current generation. A
// unit that did not come up is no reason to try again.
func afterResume(s State, _ Step, r Result, now time.Duration) (State, []Effect) {
	var effects []Effect
	if r.Resumed.Replacement != "" {
		effects = append(effects, Warn{
			What: "the current generation was damaged",
			Err:  errors.New("the node went on with " + r.Resumed.Replacement),
		})
	}

	s.Change.Resuming = false
	s.Faults.Unfinished = nil
	switch {
	case r.Err == nil && r.Resumed.Finished != "":
		effects = append(effects, info("finished an apply that was cut off",
			zap.String("generation", r.Resumed.Finished)))
	case r.Err == nil:
	case r.Resumed.Finished != "" && !errors.Is(r.Err, apply.ErrUnfinished):
		s.Faults.Jobs = Describe(r.Err)
	default:
		s.Faults.Unfinished = Describe(r.Err)
		effects = append(effects,
			failure("resume", zap.Error(r.Err)),
			SetAlarm{Which: resumeAlarm, In: retryDelay})
	}
	s, repairs := repaired(s, r.Resumed.Repaired, now)
	s, later := unrepaired(s, r.Resumed.Drift)
	s, found := nodeObserved(s, r.Node)
	effects = append(effects, repairs...)
	effects = append(effects, later...)
	effects = append(effects, found...)

	// A read that is due observes later. But before a verdict no unit may
	// change any more.
	if !s.Due.Read || s.Change.Pending != nil {
		effects = append(effects, ObserveUnits)
	}
	return s, append(effects, Watch{})
}
