package repository

import (
	"context"
	"io"
	"net/http"
	"time"
)

// watched is a body whose request ends when no byte of it comes for a while, or
// too few in a window. Only the time that a reader waits for it counts.
type watched struct {
	io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
	// waited and got count in this window.
	waited time.Duration
	got    int
}

// stalling watches the bodies of all responses, also of redirects.
type stalling struct{ http.RoundTripper }

func (s stalling) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	resp, err := s.RoundTripper.RoundTrip(req.WithContext(ctx))
	if err != nil {
		cancel(nil)
		return nil, err
	}

	resp.Body = &watched{ReadCloser: resp.Body, ctx: ctx, cancel: cancel}
	return resp, nil
}

func (w *watched) Read(p []byte) (int, error) {
	timer := time.AfterFunc(stall, func() { w.cancel(ErrStalled) })
	defer timer.Stop()
	begin := time.Now()
	n, err := w.ReadCloser.Read(p)
	w.count(n, time.Since(begin))

	if err != io.EOF && context.Cause(w.ctx) != nil {
		err = context.Cause(w.ctx)
	}

	return n, err
}

// count ends the request if a window is over that brought too little.
func (w *watched) count(n int, waited time.Duration) {
	w.got += n
	w.waited += waited
	if w.waited < window {
		return
	}

	if w.got < slowest {
		w.cancel(ErrSlow)
	}

	w.got = 0
	w.waited = 0
}

func (w *watched) Close() error {
	defer w.cancel(nil)
	return w.ReadCloser.Close()
}
