package loop

import (
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/agent/limits"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/agent/unitfile"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// unitNames returns the units to observe.
func (c Current) unitNames() []string {
	var names []string
	for _, u := range c.Generation.Units {
		if !unitfile.IsTemplate(u.Name) {
			names = append(names, u.Name)
		}
	}
	return names
}

// unitsObserved takes in the states of the units. They are judged if a change is
// on trial, once no step runs.
func unitsObserved(
	s State,
	units []unit.State,
	err error,
	now, steady time.Duration,
) (State, []Effect) {
	s.Current.Observed = true
	if err != nil {
		return s, []Effect{Warn{What: "observe units", Err: err}, Show{}}
	}

	s, again := s.withUnits(units, now, steady)
	effects := observeIn(again)
	pending := s.Change.Pending
	switch {
	case s.Faults.Unfinished != nil, pending == nil, !pending.Watched:
	case s.Busy:
		s.Due.Judge = true
	default:
		effects = append(effects, ObserveVerdict)
	}
	return s, append(effects, Show{})
}

// Judge the change on trial.
var Judge = &Kind{
	name:   "judge the change",
	begin:  beginJudge,
	atOnce: true,
	after:  afterJudge,
}

func beginJudge(s State, _ Step, _ time.Duration) (State, []Effect) {
	s.Due.Judge = false
	return s, nil
}

func afterJudge(s State, _ Step, _ Result, _ time.Duration) (State, []Effect) {
	return s, []Effect{ObserveUnits}
}

// judged takes in a verdict on the change on trial, or why there is none.
func judged(s State, v health.Verdict, err error, now time.Duration) (State, []Effect) {
	if err != nil {
		effects := []Effect{Warn{What: "judge the change", Err: err}}
		return s, append(effects, observeIn(readDelay)...)
	}

	s.Change.Shown = changeOf(*s.Change.Pending, v)
	s.Change.Unit = awaitedBy(s, v)
	switch v.Word {
	case health.Good, health.Bad:
		s.Change.Verdict = v
	case health.Confirm:
		s, effects := answerVerdict(s, v, s.Current.Generation)
		return s, append(effects, observeIn(untilVerdict(v, now))...)
	case health.Wait:
		return s, observeIn(untilVerdict(v, now))
	}
	return s, nil
}

// untilVerdict returns when to observe the units again for a verdict.
func untilVerdict(v health.Verdict, now time.Duration) time.Duration {
	return max(quietPeriod, min(v.Next-now, time.Minute))
}

// show evaluates the state and publishes it. The units are observed first only if
// they were not since the generation became current.
func show(s State, now, limit time.Duration) (State, []Effect) {
	if !s.Current.Observed {
		return s, []Effect{ObserveUnits}
	}

	before := s.Facts.AppliedAt
	s, again := s.evaluate(now, limit)
	effects := observeIn(again)
	if before == 0 && s.Facts.AppliedAt > 0 {
		effects = append(effects, info("the configuration is applied",
			zap.String("generation", s.Current.Generation.Name())))
	}
	return s, append(effects, Publish{})
}

// slowJobs are the jobs that a step has waited for longer than others take.
type slowJobs struct {
	// units have a job, the oldest first, which has taken took. first is its
	// state, unless err says why that is unknown.
	units []string
	took  time.Duration
	first unit.State
	err   error
}

// jobsObserved takes in which job of systemd the step waits for.
func jobsObserved(s State, jobs slowJobs, now, limit time.Duration) (State, []Effect) {
	if len(jobs.units) == 0 {
		s.Change.Job = nil
		return s, []Effect{Publish{}}
	}

	again := SetAlarm{Which: jobAlarm, In: jobInterval}
	if jobs.err != nil {
		return s, []Effect{again} // The job says why.
	}
	s.Change.Job = awaitedJob(s, jobs.first, len(jobs.units)-1, now-jobs.took+limit)
	return s, []Effect{again, Publish{}}
}

// warned takes in a warning. usages is how much of the kernel's limits is in use,
// if the error looks like the error of a limit.
func warned(s State, w Warn, usages []limits.Usage) (State, []Effect) {
	text := w.What + ": " + hint.Line(w.Err)
	if fault.Of(w.Err) != fault.LimitReached {
		return s.warn(text), nil
	}

	effects := []Effect{SetAlarm{Which: aliveAlarm}}
	if limits.Explains(limits.Decide(s.Facts.Limits, usages), w.Err) {
		return s, effects
	}
	return s.warn(text), effects
}

// awaitedBy returns the unit that a verdict waits for; nil if none.
func awaitedBy(s State, v health.Verdict) *status.Awaited {
	if v.Word != health.Wait || v.Unit == "" {
		return nil
	}

	observed, _ := s.Current.state(v.Unit)
	unit := &status.Awaited{Unit: v.Unit, State: observed.Active + "/" + observed.Sub}
	if s.Change.Pending.Good != "" {
		unit.Deadline = status.Duration(v.Deadline)
	}
	return unit
}

// awaitedJob returns the unit u as the one whose job the step waits for. others
// is how many further units have a job. A change is reverted at the deadline if
// there is a generation before it.
func awaitedJob(s State, u unit.State, others int, deadline time.Duration) *status.Awaited {
	good := s.Current.Generation.Name()
	if s.Change.Pending != nil {
		good = s.Change.Pending.Good
	}

	job := &status.Awaited{Unit: u.Name, State: u.Active + "/" + u.Sub, Others: others}
	last := s.Change.Job
	switch {
	case !s.Change.Applying || good == "":
	case job.Same(last):
		job.Deadline = last.Deadline // The clocks differ a little each time.
	default:
		job.Deadline = status.Duration(deadline)
	}
	return job
}
