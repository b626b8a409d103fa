package repository

import (
	"context"
	"io"
	"net/http"
	"time"
)

// watched is a body whose request ends when no byte of it comes for a while, counted only while somebody waits for it.
type watched struct {
	io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// stalling watches the bodies of all answers, also of those that come before the one that was asked for.
type stalling struct{ http.RoundTripper }

func (s stalling) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	resp, err := s.RoundTripper.RoundTrip(req.WithContext(ctx))
	if err != nil {
		cancel(nil)
		return nil, err
	}
	resp.Body = &watched{resp.Body, ctx, cancel}
	return resp, nil
}

func (w *watched) Read(p []byte) (int, error) {
	timer := time.AfterFunc(stall, func() { w.cancel(ErrStalled) })
	defer timer.Stop()
	n, err := w.ReadCloser.Read(p)
	if err != nil && err != io.EOF && context.Cause(w.ctx) != nil {
		err = context.Cause(w.ctx)
	}
	return n, err
}

func (w *watched) Close() error {
	defer w.cancel(nil)
	return w.ReadCloser.Close()
}
