package loop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/agent/liveness"
	"github.com/loam-os/loam/hint"
)

// Request is what an operator or the cluster asks of the node.
type Request struct {
	Ask ask

	response chan<- response
}

// ask is what a request asks for, with its arguments. Each verb has one, beside
// the kinds of its steps.
type ask interface {
	// admit returns the step that it begins, or why it is refused.
	admit(s State) (Step, error)
}

// response is what has become of a request.
type response struct {
	outcome control.Outcome
	report  control.VerifyReport
	err     error
}

// Requests sends requests to a loop and waits for the responses. With a method
// Upgrade it implements [control.Agent].
type Requests chan *Request

// send sends a request and waits for the response. The loop takes none while a
// step runs; a caller that does not want to wait for that sets busy.
func (q Requests) send(ctx context.Context, ask ask, busy <-chan time.Time) response {
	got := make(chan response, 1)
	select {
	case q <- &Request{Ask: ask, response: got}:
	case <-busy:
		return response{err: liveness.ErrBusy}
	case <-ctx.Done():
		return response{err: ended(ctx)}
	}

	select {
	case response := <-got:
		return response
	case <-ctx.Done():
		return response{err: ended(ctx)}
	}
}

// ended is the error of a context that has ended, and why it has.
func ended(ctx context.Context) error {
	if why := context.Cause(ctx); !errors.Is(ctx.Err(), why) {
		return fmt.Errorf("%w: %w", why, ctx.Err())
	}
	return ctx.Err()
}

// Admit returns the step that a request begins, or why it is refused. It is
// asked only while no step runs.
func Admit(s State, r *Request) (Step, error) {
	switch r.Ask.(type) {
	case askReset, askFollow:
	default:
		if s.Facts.Reset != nil {
			return Step{}, ErrInReset
		}
	}

	step, err := r.Ask.admit(s)
	step.Request = r
	return step, err
}

// errTrying is why a change has to wait for the one on trial.
func errTrying(s State) error {
	return hint.With(
		fmt.Errorf(
			"%w: generation %s waits to be confirmed",
			control.ErrBusy, s.Change.Pending.To,
		),
		"`loam confirm`, or `loam rollback`",
	)
}

// admit begins what a request asks for.
func admit(s State, r *Request) []Effect {
	step, err := Admit(s, r)
	if err != nil {
		return fail(r, err)
	}
	return []Effect{Begin{Step: step}}
}

// respond has a caller get a response; it is no effect without a caller.
func respond(r *Request, got response) []Effect {
	if r == nil {
		return nil
	}
	return []Effect{Answer{Request: r, Response: got}}
}

// fail has a caller get an error, and succeed an outcome.
func fail(r *Request, err error) []Effect { return respond(r, response{err: err}) }

func succeed(r *Request, o control.Outcome) []Effect { return respond(r, response{outcome: o}) }

// await registers the caller that gets the verdict on a change; nil if there is
// none. The caller of the change before it learns that it gets none.
func await(s State, r *Request) (State, []Effect) {
	before := s.Change.Caller
	s.Change.Caller = r
	return s, fail(before, fmt.Errorf("%w: it was replaced by the next", control.ErrBusy))
}

// failCaller tells the caller that there is no verdict.
func failCaller(s State, err error) (State, []Effect) {
	caller := s.Change.Caller
	s.Change.Caller = nil
	return s, fail(caller, err)
}
