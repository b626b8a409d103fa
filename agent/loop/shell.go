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
// other units, so they are waited for beside the loop.
func (l *loop) openShells(ctx context.Context) <-chan shell {
	opened := make(chan shell, len(l.Agent.DebugShells))
	for _, tty := range l.Agent.DebugShells {
		l.others.Go(func() {
			opened <- shell{tty, l.Units.Start(ctx, "loam-debug-shell@"+tty+".service")}
		})
	}
	return opened
}

// shellOpened makes it visible that there is a way in.
func (l *loop) shellOpened(s shell) {
	if s.err != nil {
		l.warn("open a debug shell on "+s.tty, s.err)
	} else {
		l.Log.Warn("debug shell open", zap.String("tty", s.tty))
		l.status.DebugShells = append(slices.Clone(l.status.DebugShells), s.tty)
		slices.Sort(l.status.DebugShells)
	}
	if l.published {
		l.publish(l.shown.Phase)
	}
}
