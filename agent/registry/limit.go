package registry

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	rpcstatus "google.golang.org/grpc/status"

	"github.com/loam-os/loam/agent/liveness"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// A job begins with a request that a healthy containerd answers at once, within
// AnswerLimit. After that, workLimit applies to each call and to each message
// of a transfer: collecting garbage, or writing a large layer to a slow disk,
// may take minutes. While the agent's loop waits here, a hanging containerd is
// not restarted. After AnswerLimit the loop is free, and agent/liveness
// restarts it.
const (
	AnswerLimit = 10 * time.Second
	workLimit   = 2 * time.Minute
)

// errHangs means that containerd accepts requests and does not answer.
var errHangs = fault.With(errors.New("containerd hangs"), fault.RuntimeUnreachable)

type limits struct {
	answer, work time.Duration
	// hung is set when a request has timed out; nil for nobody.
	hung *atomic.Bool
}

// answers returns an error if containerd does not answer.
func (r *Registry) answers(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, r.limits.answer)
	defer cancel()

	err := liveness.Containerd(r.socket)(limited)
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		return hint.With(fmt.Errorf("%w: %w", errHangs, err),
			"the agent restarts it after a minute; see systemctl status containerd")
	}

	return err
}

// connectOnce is connect, unless containerd has hung since Follow: a
// configuration may refer to many files.
func (r *Registry) connectOnce(ctx context.Context) (context.Context, *session, error) {
	r.mu.Lock()
	hangs := r.hangs
	r.mu.Unlock()
	if hangs != nil {
		return nil, nil, hangs
	}

	ctx, s, err := r.connect(ctx)
	if errors.Is(err, errHangs) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.hangs = err
	}

	return ctx, s, err
}

// call implements grpc.UnaryClientInterceptor.
func (l limits) call(
	ctx context.Context,
	method string,
	question, answer any,
	conn *grpc.ClientConn,
	call grpc.UnaryInvoker,
	options ...grpc.CallOption,
) error {
	limited, cancel := context.WithTimeoutCause(ctx, l.work, errHangs)
	defer cancel()
	return l.explain(limited, call(limited, method, question, answer, conn, options...))
}

// stream implements grpc.StreamClientInterceptor.
func (l limits) stream(
	ctx context.Context,
	kind *grpc.StreamDesc,
	conn *grpc.ClientConn,
	method string,
	open grpc.Streamer,
	options ...grpc.CallOption,
) (grpc.ClientStream, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	t := &transfer{ctx: ctx, limits: l}
	t.timer = time.AfterFunc(l.work, func() { cancel(errHangs) })
	var err error
	t.ClientStream, err = open(ctx, kind, conn, method, options...)
	t.timer.Stop()

	if err != nil {
		cancel(nil)
		return nil, l.explain(ctx, err)
	}

	return t, nil
}

// explain adds to a request that timed out that containerd hangs. It returns a
// gRPC error, which its callers translate: of that the text is left, without a
// hint and a code, which [session.explain] adds.
func (l limits) explain(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), errHangs) {
		if l.hung != nil {
			l.hung.Store(true)
		}
		return rpcstatus.Errorf(codes.DeadlineExceeded, "%v: no answer in %s", errHangs, l.work)
	}
	return err
}

// explain adds to an error what to do if a request of the session has timed out, or
// if containerd has no room. Of an error of its file system, containerd sends the
// text only.
func (s *session) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case s.hung.Load():
		return hint.With(fault.With(err, fault.RuntimeUnreachable), "systemctl status containerd")
	case strings.Contains(err.Error(), unix.ENOSPC.Error()),
		strings.Contains(err.Error(), unix.EDQUOT.Error()):
		return hint.With(fault.With(err, fault.StateFull),
			"free room on the state partition, `df -h /var` and `df -i /var`; the node goes on by itself")
	}
	return err
}

// transfer is a stream that ends when one message takes longer than the limit.
type transfer struct {
	grpc.ClientStream
	limits
	ctx   context.Context
	timer *time.Timer
}

func (t *transfer) SendMsg(m any) error {
	t.timer.Reset(t.work)
	defer t.timer.Stop()
	return t.explain(t.ctx, t.ClientStream.SendMsg(m))
}

func (t *transfer) RecvMsg(m any) error {
	t.timer.Reset(t.work)
	defer t.timer.Stop()
	return t.explain(t.ctx, t.ClientStream.RecvMsg(m))
}
