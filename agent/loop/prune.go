package loop

import (
	"context"
	"time"
)

// Prune what a change has made room for.
var Prune = &Kind{
	name:    "prune",
	begin:   beginPrune,
	perform: func(_ context.Context, w worker, _ Step) Result { return Result{Err: w.engine.Tidy()} },
	after:   afterPrune,
}

func beginPrune(s State, _ Step, _ time.Duration) (State, []Effect) {
	s.Due.Prune = false
	return s, nil
}

func afterPrune(s State, _ Step, r Result, _ time.Duration) (State, []Effect) {
	effects := []Effect{SetAlarm{Which: idleAlarm, In: idleDelay}}
	if r.Err != nil {
		effects = append(effects, Warn{What: "delete old generations", Err: r.Err})
	}
	return s, effects
}
