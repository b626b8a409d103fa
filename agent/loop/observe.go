package loop

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/health"
)

// observeGeneration finds out which generation is current and which change is on
// trial, and watches the paths of a new one.
func (l *Loop) observeGeneration() {
	before := l.state.Current.Generation
	current, _, err := l.Engine.Current()
	if err != nil {
		l.warn("read the current generation", err)
	}

	var pending *apply.Pending
	change, isPending, err := l.Engine.Pending()
	if err != nil {
		l.warn("read the journal", err)
	}
	if isPending {
		pending = &change
	}

	owed, err := l.Engine.Owed()
	if err != nil {
		l.warn("read what is owed", err)
	}

	l.state = l.state.observed(current, pending, owed)
	l.startLater()
	if current.Name() != before.Name() {
		l.guard(before)
	}
}

// guard watches the paths of the current generation, and then has the loop look
// once at those that something may have touched before.
func (l *Loop) guard(before generation.Manifest) {
	if l.Drift == nil {
		return
	}

	current := l.state.Current.Generation
	paths := slices.Concat(generation.Paths(current), generation.Ways(current))
	err := l.Drift.Set(l.Root, paths)
	if err != nil {
		l.warn("watch managed paths", err)
	}
	l.state = l.state.guard(before, err == nil)
}

// checkWatches takes in whether all managed paths are still watched. Until they are
// watched again, each change looks at all of them.
func (l *Loop) checkWatches() {
	err := l.Drift.Err()
	if err == nil || !l.state.Drift.Guarded {
		return
	}
	l.state.Drift.Guarded = false
	l.warn("watch managed paths", err)
	l.observeIn(quietPeriod)
}

// startLater sets the alarm for the units that are owed.
func (l *Loop) startLater() {
	if len(l.state.Starts.Owed) == 0 {
		l.state.Starts.Wait = 0
		l.alarms.clear(startAlarm)
		return
	}
	if !l.alarms.isSet(startAlarm) {
		l.state.Starts.Wait = backoff(l.state.Starts.Wait)
		l.alarms.soon(startAlarm, l.state.Starts.Wait)
	}
}

// observeUnits observes the units of the current generation, judges the change on
// trial by them, and publishes how the node stands.
func (l *Loop) observeUnits(ctx context.Context) {
	var names []string
	for _, u := range l.state.Current.Generation.Units {
		if !generation.IsTemplate(u.Name) {
			names = append(names, u.Name)
		}
	}
	units, err := l.Units.Show(ctx, names)
	if ctx.Err() != nil {
		return
	}

	l.state.Current.Observed = true
	if err != nil {
		l.warn("observe units", err)
	} else {
		var again time.Duration
		l.state, again = l.state.withUnits(units, l.Now(), l.Steady)
		l.observeIn(again)
		l.judge(ctx)
	}
	l.show(ctx)
}

// observeIn has the units observed after d, unless d is 0.
func (l *Loop) observeIn(d time.Duration) {
	if d > 0 {
		l.alarms.soon(observeAlarm, d)
	}
}

// judge asks for a verdict on the change on trial.
func (l *Loop) judge(ctx context.Context) {
	pending := l.state.Change.Pending
	if l.state.Faults.Unfinished != nil || pending == nil || !pending.Watched {
		return
	}
	if l.state.Busy {
		l.state.Due.Judge = true
		return
	}

	v, err := l.Engine.Judge(ctx)
	if err != nil {
		l.warn("judge the change", err)
		return
	}
	l.state.Change.Shown = changeOf(*pending, v)
	switch v.Word {
	case health.Good, health.Bad:
		l.state.Change.Verdict = v
	case health.Confirm:
		l.answerVerdict(v, l.state.Current.Generation)
		l.observeIn(untilVerdict(v, l.Now()))
	case health.Wait:
		l.observeIn(untilVerdict(v, l.Now()))
	}
}

// untilVerdict returns when to observe the units again for a verdict.
func untilVerdict(v health.Verdict, now time.Duration) time.Duration {
	return max(quietPeriod, min(v.Next-now, time.Minute))
}

// show publishes how the node stands as far as is known. It observes the units
// only if they were not observed since the generation became current.
func (l *Loop) show(ctx context.Context) {
	if !l.state.Current.Observed {
		l.observeUnits(ctx)
		return
	}

	before := l.state.Facts.AppliedAt
	var again time.Duration
	l.state, again = l.state.evaluate(l.Now(), l.Limit)
	l.observeIn(again)
	if before == 0 && l.state.Facts.AppliedAt > 0 {
		l.Log.Info("the configuration is applied",
			zap.String("generation", l.state.Current.Generation.Name()))
	}
	l.published.publish(l.state.Status())
}

// warn logs an error that the node lives with, and has the status show it.
func (l *Loop) warn(what string, err error) {
	l.Log.Warn(what, zap.Error(err))
	l.state = l.state.warn(what + ": " + err.Error())
}
