package main

import (
	"context"
	"time"

	"github.com/loam-os/loam/test/suite/report"
)

const (
	pauseTick = time.Second
	// pauseLimit is more than a busy machine keeps a program from running.
	pauseLimit = 20 * time.Second
)

// watchPauses looks for times in which this machine ran nothing, as a virtual machine
// that its host has paused, until stop returns them.
func watchPauses(ctx context.Context) (stop func() []report.Pause) {
	ctx, cancel := context.WithCancel(ctx)
	found := make(chan []report.Pause)
	go func() {
		var pauses []report.Pause
		tick := time.NewTicker(pauseTick)
		defer tick.Stop()
		for last := time.Now(); ; {
			select {
			case <-ctx.Done():
				found <- pauses
				return
			case <-tick.C:
			}
			now := time.Now()
			if p, ok := pauseBetween(last, now); ok {
				pauses = append(pauses, p)
			}
			last = now
		}
	}()

	return func() []report.Pause {
		cancel()
		return <-found
	}
}

// pauseBetween returns the pause that two ticks, one after the other, tell of.
func pauseBetween(last, now time.Time) (p report.Pause, ok bool) {
	took := now.Sub(last)
	return report.Pause{Began: last, Took: took}, took >= pauseLimit
}
