package control

import (
	"context"
	"errors"
	"time"
)

const (
	// restartPause is how long an agent that starts anew is left alone,
	// restartLimit how long it may take until it answers.
	restartPause = 200 * time.Millisecond
	restartLimit = 30 * time.Second
)

// again asks until an agent answers that does not start anew. Without one that
// said so, there is nothing to wait for.
func again(ctx context.Context, ask func() (Outcome, error)) (Outcome, error) {
	var limit <-chan time.Time
	for {
		o, err := ask()
		switch {
		case errors.Is(err, ErrRestarting):
			limit = time.After(restartLimit)
		case limit == nil || err == nil || answered(err):
			return o, err
		}
		select {
		case <-time.After(restartPause):
		case <-limit:
			return o, err
		case <-ctx.Done():
			return o, err
		}
	}
}

// answered reports whether an error is what an agent said.
func answered(err error) bool {
	_, is := errors.AsType[failure](err)
	return is
}
