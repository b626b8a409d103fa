package loop

import (
	"slices"
	"time"
)

// alarm names a time at which the loop does something.
type alarm int

const (
	// readAlarm reads the source again.
	readAlarm alarm = iota
	// resumeAlarm completes what could not be completed, and reads the source.
	resumeAlarm
	// probeAlarm probes again what does not answer.
	probeAlarm
	// startAlarm starts again the units that the engine owes.
	startAlarm
	// repairAlarm looks at all managed paths.
	repairAlarm
	// observeAlarm observes the units.
	observeAlarm
	// jobAlarm looks at the jobs of systemd that a step waits for.
	jobAlarm
	// idleAlarm gives memory back.
	idleAlarm
	// aliveAlarm notifies the watchdog, and observes what nothing reports: the
	// room on the file systems, the limits of the kernel and the clocks.
	aliveAlarm
)

const (
	// quietPeriod is how long the loop waits for further changes before it
	// observes: a unit that starts changes several times.
	quietPeriod = 100 * time.Millisecond
	// retryDelay is when the loop tries again to complete what it could not.
	retryDelay = 30 * time.Second
	// probeDelay is when it probes again what does not answer.
	probeDelay = 2 * time.Second
	// readDelay is when it looks again for what a document refers to and is
	// absent.
	readDelay = 5 * time.Second
	// jobInterval is how often it looks at a job that takes long.
	jobInterval = 5 * time.Second
	// idleDelay is when, after a change, the memory that it took is given back.
	idleDelay = time.Minute
	// aliveInterval is how often the watchdog hears of the loop, which ends the
	// agent after three (WatchdogSec= of its unit).
	aliveInterval = time.Minute
	// limitInterval is how often it looks again at a limit that is used up, or at a
	// file system that is full.
	limitInterval = 10 * time.Second
	// clockDelay is when the clocks are compared first, as time from kernel
	// start: a time server has answered by then, or there is none.
	clockDelay = 2 * time.Minute
)

// alarms are the alarms that are set. The zero alarms is ready. It needs no
// goroutine and is not safe for use by several.
type alarms struct {
	at    map[alarm]time.Time
	timer *time.Timer
}

// soon sets an alarm to d from now, unless it is set to come before.
func (a *alarms) soon(which alarm, d time.Duration) {
	if a.at == nil {
		a.at = map[alarm]time.Time{}
	}

	at := time.Now().Add(d)
	if set, ok := a.at[which]; ok && !at.Before(set) {
		return
	}
	a.at[which] = at
	a.arm()
}

// isSet reports whether an alarm is still to come.
func (a *alarms) isSet(which alarm) bool {
	_, ok := a.at[which]
	return ok
}

func (a *alarms) clear(which alarm) {
	if a.isSet(which) {
		delete(a.at, which)
		a.arm()
	}
}

// c receives when an alarm is due; nil if none is set.
func (a *alarms) c() <-chan time.Time {
	if len(a.at) == 0 {
		return nil
	}
	return a.timer.C
}

// due clears the alarms that have come, and returns them in the order of their
// constants.
func (a *alarms) due() []alarm {
	now := time.Now()
	var come []alarm
	for which, at := range a.at {
		if !at.After(now) {
			come = append(come, which)
			delete(a.at, which)
		}
	}
	slices.Sort(come)
	a.arm()
	return come
}

// arm sets the timer to the next alarm.
func (a *alarms) arm() {
	if a.timer == nil {
		a.timer = time.NewTimer(0)
	}

	a.timer.Stop()
	var next time.Time
	for _, at := range a.at {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	if !next.IsZero() {
		a.timer.Reset(time.Until(next))
	}
}
