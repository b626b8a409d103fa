package loop

import (
	"context"
	"slices"

	"go.uber.org/zap"
)

// shell is the outcome of opening a debug shell.
type shell struct {
	tty string
	err error
}

// openShells has systemd start a shell on each terminal. The jobs may wait for
// other units, so they run beside the loop.
func (l *Loop) openShells(ctx context.Context) <-chan shell {
	opened := make(chan shell, len(l.DebugShells))
	for _, tty := range l.DebugShells {
		l.others.Go(func() {
			err := l.Units.Start(ctx, "loam-debug-shell@"+tty+".service")
			opened <- shell{tty: tty, err: err}
		})
	}
	return opened
}

// shellOpened makes it visible that there is a way in. It publishes nothing else,
// as the rest may be about to be observed.
func (l *Loop) shellOpened(s shell) {
	if s.err != nil {
		l.warn("open a debug shell on "+s.tty, s.err)
	} else {
		l.Log.Warn("debug shell open", zap.String("tty", s.tty))
		open := append(slices.Clone(l.state.Facts.DebugShells), s.tty)
		slices.Sort(open)
		l.state.Facts.DebugShells = open
	}

	if l.published {
		now := l.shown
		now.DebugShells = l.state.Facts.DebugShells
		now.Warnings = l.state.Status().Warnings
		l.publish(now)
	}
}
