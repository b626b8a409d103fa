package service

import (
	"context"
	"sync"
)

// interrupter lets requests to cancel interrupt the step that runs, which may
// take hours. From interrupt to resume, no step goes on. The zero value is
// ready.
type interrupter struct {
	mu sync.Mutex
	// end ends the step that runs; nil before the first step.
	end context.CancelFunc
	// pending counts the requests that have called interrupt but not resume.
	pending int
}

// interrupt ends the step that runs.
func (i *interrupter) interrupt() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.pending++
	if i.end != nil {
		i.end()
	}
}

// resume lets steps go on. Each call belongs to one call of interrupt.
func (i *interrupter) resume() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.pending--
}

// interrupted reports whether steps must not go on.
func (i *interrupter) interrupted() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.pending > 0
}

// begin returns the context of a step, which interrupt ends.
func (i *interrupter) begin(ctx context.Context) (context.Context, context.CancelFunc) {
	i.mu.Lock()
	defer i.mu.Unlock()
	ctx, i.end = context.WithCancel(ctx)
	if i.pending > 0 {
		i.end()
	}
	return ctx, i.end
}
