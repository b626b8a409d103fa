package loop

import (
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/loam-os/loam/agent/apply"
)

// Effect is something to do because the state has changed. It is a value, which
// the runner does: see [runner.do]. Its types are those of this file.
type Effect interface{ effect() }

// Log writes a line to the log.
type Log struct {
	Level  zapcore.Level
	Text   string
	Fields []zap.Field
}

// Event records a warning in the cluster, if the node is part of one.
type Event struct{ Reason, Message string }

// Warn logs an error that the node lives with, and has the status show it. A
// limit of the kernel that explains it is in the status already.
type Warn struct {
	What string
	Err  error
}

// Answer answers a caller.
type Answer struct {
	Request  *Request
	Response response
}

// SetAlarm sets an alarm, unless it is set to come before.
type SetAlarm struct {
	Which alarm
	In    time.Duration
}

// ClearAlarm clears an alarm.
type ClearAlarm struct{ Which alarm }

// Observe asks for an observation, whose result goes back into the state before
// the next effect.
type Observe string

const (
	// ObserveUnits observes the units of the current generation.
	ObserveUnits Observe = "units"
	// ObserveVerdict asks for a verdict on the change on trial.
	ObserveVerdict Observe = "verdict"
	// ObserveJobs observes the jobs of systemd that a step waits for.
	ObserveJobs Observe = "jobs"
	// ObserveStorage observes how much room there is on the file systems.
	ObserveStorage Observe = "storage"
	// ObserveLimits observes the limits of the kernel.
	ObserveLimits Observe = "limits"
	// ObserveClock compares the clocks.
	ObserveClock Observe = "clock"
)

// TryThreads asks whether the kernel gives one more process. If so, Apply begins.
type TryThreads struct{ Apply Step }

// Watch has all paths of the current generation watched, and no others.
type Watch struct{}

// Show publishes how the node stands, by what was observed of it. Publish does
// so without a look at that.
type (
	Show    struct{}
	Publish struct{}
)

// ShowShells publishes the debug shells and warnings, and else what was published
// last: the rest may not be observed yet.
type ShowShells struct{}

// Begin begins a step.
type Begin struct{ Step Step }

// Release lets a configuration of the source count again that an operator's
// request held.
type Release struct{ Digest string }

// Unprepare takes back what the cluster prepared for a change.
type Unprepare struct{}

// Proven has done, beside the loop, what follows a change that has proven itself.
type Proven struct{}

// Count counts the outcome of a change, which began at Began.
type Count struct {
	Outcome apply.Outcome
	Began   time.Duration
}

// Alive notifies the watchdog.
type Alive struct{}

// FreeMemory gives memory back to the kernel.
type FreeMemory struct{}

// End ends the agent, to be started again.
type End struct{ Why error }

func (Log) effect()        {}
func (Event) effect()      {}
func (Warn) effect()       {}
func (Answer) effect()     {}
func (SetAlarm) effect()   {}
func (ClearAlarm) effect() {}
func (Observe) effect()    {}
func (TryThreads) effect() {}
func (Watch) effect()      {}
func (Show) effect()       {}
func (Publish) effect()    {}
func (ShowShells) effect() {}
func (Begin) effect()      {}
func (Release) effect()    {}
func (Unprepare) effect()  {}
func (Proven) effect()     {}
func (Count) effect()      {}
func (Alive) effect()      {}
func (FreeMemory) effect() {}
func (End) effect()        {}

// info, warning and failure return the effect of a line in the log.
func info(text string, fields ...zap.Field) Log {
	return Log{Level: zap.InfoLevel, Text: text, Fields: fields}
}

func warning(text string, fields ...zap.Field) Log {
	return Log{Level: zap.WarnLevel, Text: text, Fields: fields}
}

func failure(text string, fields ...zap.Field) Log {
	return Log{Level: zap.ErrorLevel, Text: text, Fields: fields}
}

// observeIn has the units observed after d, unless d is 0.
func observeIn(d time.Duration) []Effect {
	if d == 0 {
		return nil
	}
	return []Effect{SetAlarm{Which: observeAlarm, In: d}}
}
