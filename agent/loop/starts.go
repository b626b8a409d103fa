package loop

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/agent/unit"
)

// starts are the units that a change could not start, or that did not stay well,
// although they take nothing back.
type starts struct {
	// owed are to be started once more, after wait: see apply.Executor.Retry.
	owed []string
	wait time.Duration
	// well are the units that were well before the change that led here, unwell
	// those that are shown until they are well.
	well   []string
	unwell []health.Unwell
}

// firstStart is how long the loop waits before it starts a unit once more, lastStart
// how long it waits at most: twice as long each time.
const (
	firstStart = 5 * time.Second
	lastStart  = 5 * time.Minute
)

// observeStarts finds out what is owed, and sets the alarm for it. same says that
// the generation is the one from before.
func (l *loop) observeStarts(same bool) {
	if !same {
		l.starts.well, l.starts.unwell = nil, nil
	}
	if l.isPending {
		l.starts.well = l.pending.Well
	}

	var err error
	l.starts.owed, err = l.Engine.Owed()
	if err != nil {
		l.warn("read what is owed", err)
	}
	l.startLater()
}

func (l *loop) startLater() {
	if len(l.starts.owed) == 0 {
		l.starts.wait = 0
		l.startAt.clear()
		return
	}
	if l.startAt.c == nil {
		l.starts.wait = min(max(2*l.starts.wait, firstStart), lastStart)
		l.startAt.soon(l.starts.wait)
	}
}

// startOwed starts once more what is owed.
func (l *loop) startOwed(ctx context.Context) {
	l.start(func() func() {
		owed, err := l.Engine.Retry(ctx)
		return func() {
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				l.Log.Warn("units did not come up", zap.Strings("units", owed), zap.Error(err))
			}
			l.starts.owed, l.failed = owed, nil
			if err != nil {
				l.failed = Describe(err)
			}
			l.startLater()
			l.look(ctx)
		}
	})
}

// takeStates notes which of the units that were not well are now.
func (l *loop) takeStates(states []unit.State) {
	l.states = states
	for _, s := range states {
		if s.Started() && slices.Contains(l.starts.owed, s.Name) {
			l.due.start = true // It came up by itself.
		}
	}
	l.starts.unwell = slices.DeleteFunc(slices.Clone(l.starts.unwell), l.recovered)
}

// recovered reports whether a unit has been well for long enough to believe it.
func (l *loop) recovered(u health.Unwell) bool {
	i := slices.IndexFunc(l.states, func(s unit.State) bool { return s.Name == u.Unit })
	if i < 0 {
		return true
	}
	for _, want := range l.current.Units {
		well, _ := health.Well(want, l.states[i])
		if want.Name != u.Unit || !well {
			continue
		}
		if left := l.states[i].Since + l.Steady - l.Now(); left > 0 {
			l.lookAt.soon(left)
			return false
		}
		return true
	}
	return false
}

// reportUnwell tells of units that are not well after a change that stays.
func (l *loop) reportUnwell(v health.Verdict) {
	l.starts.unwell = v.Unwell
	if len(v.Unwell) == 0 {
		return
	}

	l.Log.Warn("the change stays, and not all of its units are well", zap.String("reason", v.Reason))
	if l.Cluster != nil {
		l.Cluster.Event(true, "UnitNotWell", shorten(v.Reason))
	}
}

// warnings are those that stay, and what is known of units now.
func (l *loop) warnings() []string {
	all := slices.Clone(l.status.Warnings)
	for _, u := range l.starts.unwell {
		all = append(all, u.How+"; hint: journalctl -u "+u.Unit)
	}
	return all
}

// isApplied reports whether the current generation counts as applied. As Gardener's
// node agent has it, every job of the change has succeeded; what is not needed for
// pods and was never well here need not be. What is on its way has until the verdict,
// or in a boot without a change as long as a change would have.
func (l *loop) isApplied() bool {
	if l.changing || l.current.Name() == "" || l.asked != nil || l.unfinished != nil || len(l.starts.owed) > 0 {
		return false
	}

	boot := l.Limit - l.Now() // Left to a boot without a change.
	for _, u := range l.current.Units {
		i := slices.IndexFunc(l.states, func(s unit.State) bool { return s.Name == u.Name })
		if i < 0 {
			continue
		}
		well, _ := health.Well(u, l.states[i])
		switch {
		case well:
		case health.Counts(u, l.starts.well, nil):
			return false
		case !health.OnItsWay(l.states[i]):
		case l.isPending:
			return false
		case l.began == 0 && boot > 0:
			l.lookAt.soon(boot)
			return false
		}
	}
	return true
}
