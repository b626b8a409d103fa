package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/cmd/outcome"
)

// pollInterval is how often the status is read while a command waits.
const pollInterval = 500 * time.Millisecond

// progressTo returns where a command says what it waits for. A program that asks
// for JSON reads nothing but an error on standard error.
func progressTo(cmd *cobra.Command, format string) io.Writer {
	if outcome.IsJSON(format) {
		return io.Discard
	}
	return cmd.ErrOrStderr()
}

// meanwhile runs show until stop is called, which waits for its end.
func meanwhile(ctx context.Context, show func(ctx context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		show(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// watching prints, until stop is called, which unit the agent waits for: a line
// whenever that is another unit or it has another state. uptime is the time since
// kernel start.
func watching(
	ctx context.Context, out io.Writer, file string, uptime func() time.Duration,
) (stop func()) {
	return meanwhile(ctx, func(ctx context.Context) { printAwaited(ctx, out, file, uptime) })
}

func printAwaited(
	ctx context.Context, out io.Writer, file string, uptime func() time.Duration,
) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()

	var last status.Awaited
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}

		s, err := readStatus(file)
		if err != nil || s.Awaited == nil {
			continue // The command ends with an error if the agent does not answer.
		}
		now := *s.Awaited
		if now.Unit != last.Unit || now.State != last.State {
			fmt.Fprintf(out, "waiting for %s\n", now.Text(uptime()))
		}
		last = now
	}
}
