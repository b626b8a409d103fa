package loop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/agent/liveness"
	"github.com/loam-os/loam/agent/registry"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// Request is what an operator or the cluster asks of the node: one of its
// fields is set.
type Request struct {
	Apply    *control.ApplyRequest
	Confirm  bool
	Rollback *control.RollbackRequest
	Verify   *control.VerifyRequest
	// Restart are units to restart.
	Restart []string
	// Reset asks for a reset to begin or to be carried out, Follow for its end.
	Reset, Follow bool

	response chan<- response
}

// response is what has become of a request.
type response struct {
	outcome control.Outcome
	report  control.VerifyReport
	err     error
}

// Requests sends requests to a loop and waits for the responses. With a method
// Upgrade it implements [control.Node].
type Requests chan *Request

// Apply implements [control.Node].
func (q Requests) Apply(ctx context.Context, r control.ApplyRequest) (control.Outcome, error) {
	got := q.send(ctx, Request{Apply: &r}, nil)
	return got.outcome, got.err
}

// Confirm implements [control.Node].
func (q Requests) Confirm(ctx context.Context) (control.Outcome, error) {
	got := q.send(ctx, Request{Confirm: true}, nil)
	return got.outcome, got.err
}

// Rollback implements [control.Node].
func (q Requests) Rollback(
	ctx context.Context,
	r control.RollbackRequest,
) (control.Outcome, error) {
	got := q.send(ctx, Request{Rollback: &r}, nil)
	return got.outcome, got.err
}

// Verify implements [control.Node].
func (q Requests) Verify(
	ctx context.Context,
	r control.VerifyRequest,
) (control.VerifyReport, error) {
	got := q.send(ctx, Request{Verify: &r}, nil)
	return got.report, got.err
}

// Reset implements [control.Node]. It begins a reset, or carries out the one
// that has begun. [ErrReset] means that the agent ends first, to be started
// again.
func (q Requests) Reset(ctx context.Context) (control.Outcome, error) {
	got := q.send(ctx, Request{Reset: true}, nil)
	return got.outcome, got.err
}

// Follow ends a reset. [ErrFollows] means that it has.
func (q Requests) Follow(ctx context.Context) error {
	return q.send(ctx, Request{Follow: true}, nil).err
}

// Restart restarts units, one after the other, when nothing else changes the
// node.
func (q Requests) Restart(ctx context.Context, units []string) error {
	return q.send(ctx, Request{Restart: units}, nil).err
}

// busyAfter is how long a restart of units that hang waits for the loop.
// Reading a configuration waits [registry.AnswerLimit] for a containerd that
// hangs, so the restart gets its turn between two reads.
const busyAfter = registry.AnswerLimit + 5*time.Second

// RestartUnlessBusy is Restart for [liveness.Watch]. It returns
// [liveness.ErrBusy] while a change is being made, which restarts units itself.
func (q Requests) RestartUnlessBusy(ctx context.Context, units []string) error {
	return q.send(ctx, Request{Restart: units}, time.After(busyAfter)).err
}

// send sends a request and waits for the response. The loop takes none while a
// step runs; a caller that does not want to wait for that sets busy.
func (q Requests) send(ctx context.Context, r Request, busy <-chan time.Time) response {
	got := make(chan response, 1)
	r.response = got
	select {
	case q <- &r:
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

// document is the document to apply, nil for the source's.
func (r *Request) document() *source.Document {
	if r.Apply == nil || r.Apply.Document == "" {
		return nil
	}
	return &source.Document{Name: r.Apply.Name, Text: []byte(r.Apply.Document)}
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

// answerVerdict tells the caller of the change to before what the verdict is.
func answerVerdict(s State, v health.Verdict, before generation.Manifest) (State, []Effect) {
	caller := s.Change.Caller
	if caller == nil {
		return s, nil
	}
	s.Change.Caller = nil
	o, err := verdictOutcome(s, v, before)
	return s, respond(caller, response{outcome: o, err: err})
}

// verdictOutcome returns what the caller of the change to before learns.
func verdictOutcome(
	s State,
	v health.Verdict,
	before generation.Manifest,
) (control.Outcome, error) {
	now := s.Current.Generation
	o := control.Outcome{
		Result:     control.Applied,
		Generation: now.Name(),
		Digest:     now.Digest,
		Reason:     v.Reason,
		Unit:       v.Unit,
	}

	switch {
	case v.Word == health.Confirm:
		o.Result = control.Trying
		o.Until = s.Change.Pending.Try.Until
	case v.Word == health.Bad && now.Name() == before.Name():
		return control.Outcome{}, hint.With(
			fault.With(fmt.Errorf("applied, and not well: %s", v.Reason), fault.UnitFailed),
			"there is no generation before it to go back to",
		)
	case v.Word == health.Bad:
		o.Result = control.Reverted
		o.From = before.Name()
	}

	return o, nil
}
