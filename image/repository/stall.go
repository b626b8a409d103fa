package repository

import (
	"context"
	"io"
	"time"
)

// watched is a body whose request ends when no byte of it comes for a while, counted only while somebody waits for it.
type watched struct {
	io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
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
