package control

import (
	"context"
	"errors"
	"time"

	"github.com/loam-os/loam/hint/fault"
)

const (
	// restartPause is the pause before an agent that restarts is asked again,
	// restartLimit how long its restart may take.
	restartPause = 200 * time.Millisecond
	restartLimit = 30 * time.Second
)

// retry repeats a request while the agent restarts. It does not wait for an
// agent that never answered.
func retry(ctx context.Context, ask func() (Outcome, error)) (Outcome, error) {
	var limit <-chan time.Time

	for {
		o, err := ask()
		switch {
		case fault.Of(err) == fault.AgentRestarting:
			limit = time.After(restartLimit)
		case limit == nil || err == nil || isAnswer(err):
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

// isAnswer reports whether err comes from an agent.
func isAnswer(err error) bool {
	_, is := errors.AsType[failure](err)
	return is
}
