package loop

import (
	"context"
	"slices"
	"sync"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/status"
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

// shellOpened takes in that a shell is open, and publishes that.
func shellOpened(s State, opened shell) (State, []Effect) {
	var effects []Effect
	if opened.err != nil {
		effects = append(effects, Warn{
			What: "open a debug shell on " + opened.tty,
			Err:  opened.err,
		})
	} else {
		open := append(slices.Clone(s.Facts.DebugShells), opened.tty)
		slices.Sort(open)
		s.Facts.DebugShells = open
		effects = append(effects, warning("debug shell open", zap.String("tty", opened.tty)))
	}

	if s.Published.Any {
		effects = append(effects, ShowShells{})
	}
	return s, effects
}

// withShells returns what was published last, with the debug shells and warnings
// of now.
func withShells(s State) status.Status {
	shown := s.Published.Last
	shown.DebugShells = s.Facts.DebugShells
	shown.Warnings = s.Status().Warnings
	return shown
}
