package loop

import (
	"context"
	"slices"
	"sync"

	"go.uber.org/zap"
)

// shell is the outcome of opening a debug shell.
type shell struct {
	tty string
	err error
}

// openShells makes systemd start a shell on each terminal. The jobs may wait
// for other units, so they run beside the loop.
func openShells(
	ctx context.Context,
	units Units,
	terminals []string,
	others *sync.WaitGroup,
) <-chan shell {
	opened := make(chan shell, len(terminals))
	for _, tty := range terminals {
		others.Go(func() {
			err := units.Start(ctx, "loam-debug-shell@"+tty+".service")
			opened <- shell{tty: tty, err: err}
		})
	}
	return opened
}

// shellOpened publishes that a shell is open. It publishes nothing else,
// because the rest may not be observed yet.
func (n *node) shellOpened(s shell) {
	if s.err != nil {
		n.warn("open a debug shell on "+s.tty, s.err)
	} else {
		n.log.Warn("debug shell open", zap.String("tty", s.tty))
		open := append(slices.Clone(n.state.Facts.DebugShells), s.tty)
		slices.Sort(open)
		n.state.Facts.DebugShells = open
	}

	if n.published.any {
		now := n.published.last
		now.DebugShells = n.state.Facts.DebugShells
		now.Warnings = n.state.Status().Warnings
		n.published.publish(now)
	}
}
