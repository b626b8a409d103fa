package apiserver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// Transport is the way of one client to a server, without a socket. It implements
// [http.RoundTripper].
type Transport struct {
	Server http.Handler

	// Fault says what happens to a request; nil for nothing.
	Fault func(*http.Request) Fault

	mu      sync.Mutex
	watches map[*body]bool
}

// Fault is what happens to a request on its way. The zero Fault is none.
type Fault struct {
	// Delay is how long the request is on its way.
	Delay time.Duration

	// Refuse is the error of a request that does not reach the server, Lose that
	// of one whose answer is lost: the server has done it.
	Refuse, Lose error
}

// errCut is the end of a watch whose connection is lost.
var errCut = errors.New("connection reset by peer")

// Cut ends the watches that are under way.
func (t *Transport) Cut() {
	t.mu.Lock()
	watches := t.watches
	t.watches = nil
	t.mu.Unlock()
	for b := range watches {
		b.end(errCut)
	}
}

// RoundTrip implements [http.RoundTripper].
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	if r.Body != nil {
		defer r.Body.Close()
	}
	fault := Fault{}
	if t.Fault != nil {
		fault = t.Fault(r)
	}
	if fault.Delay > 0 {
		select {
		case <-time.After(fault.Delay):
		case <-ctx.Done():
		}
	}
	if err := errors.Join(ctx.Err(), fault.Refuse); err != nil {
		return nil, err
	}

	request := r.Clone(ctx)
	if r.Body == nil {
		request.Body = http.NoBody
	}
	if r.Method == http.MethodGet && isTrue(r, "watch") {
		return t.watch(request)
	}

	a := newAnswer(r)
	t.Server.ServeHTTP(a, request)
	if fault.Lose != nil {
		return nil, fault.Lose
	}
	a.body.end(io.EOF)
	return a.response, nil
}

// watch serves a request beside the client until one of them ends it.
func (t *Transport) watch(r *http.Request) (*http.Response, error) {
	a := newAnswer(r)
	ctx, cancel := context.WithCancel(r.Context())
	a.body.cancel = cancel
	context.AfterFunc(ctx, func() { a.body.end(ctx.Err()) })
	r = r.WithContext(ctx)

	t.mu.Lock()
	if t.watches == nil {
		t.watches = map[*body]bool{}
	}
	t.watches[a.body] = true
	t.mu.Unlock()

	go func() {
		t.Server.ServeHTTP(a, r)
		a.body.end(io.EOF)
		t.mu.Lock()
		delete(t.watches, a.body)
		t.mu.Unlock()
	}()

	select {
	case <-a.begun:
		return a.response, nil
	case <-ctx.Done():
	}
	select {
	case <-a.begun: // The server has answered, and ended the watch itself.
		return a.response, nil
	default:
		return nil, ctx.Err()
	}
}

// answerWriter implements [http.ResponseWriter] and [http.Flusher]. What is written is
// in the body of the response at once.
type answerWriter struct {
	response *http.Response
	body     *body
	once     sync.Once
	begun    chan struct{}
}

func newAnswer(r *http.Request) *answerWriter {
	b := newBody()
	return &answerWriter{
		body:  b,
		begun: make(chan struct{}),
		response: &http.Response{
			Proto:         "HTTP/2.0",
			ProtoMajor:    2,
			Header:        http.Header{},
			Body:          b,
			ContentLength: -1,
			Request:       r,
		},
	}
}

// Header implements [http.ResponseWriter].
func (a *answerWriter) Header() http.Header { return a.response.Header }

// WriteHeader implements [http.ResponseWriter].
func (a *answerWriter) WriteHeader(code int) {
	a.once.Do(func() {
		a.response.StatusCode = code
		a.response.Status = http.StatusText(code)
		close(a.begun)
	})
}

// Write implements [http.ResponseWriter].
func (a *answerWriter) Write(text []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.write(text)
}

// Flush implements [http.Flusher].
func (a *answerWriter) Flush() {}

// body is the body of a response: what the server has written and the client has
// not read, without a limit.
type body struct {
	mu     sync.Mutex
	change sync.Cond
	text   bytes.Buffer
	err    error
	cancel func()
}

func newBody() *body {
	b := &body{cancel: func() {}}
	b.change.L = &b.mu
	return b
}

func (b *body) write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return 0, b.err
	}
	b.change.Broadcast()
	return b.text.Write(text)
}

// end lets the client read what is written, and then err.
func (b *body) end(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = err
		b.change.Broadcast()
	}
	b.cancel()
}

// Read implements [io.Reader].
func (b *body) Read(to []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.text.Len() == 0 {
		if b.err != nil {
			return 0, b.err
		}
		b.change.Wait()
	}
	n, err := b.text.Read(to)
	if b.text.Len() == 0 {
		b.text = bytes.Buffer{} // A watch is idle most of the time.
	}
	return n, err
}

// Close implements [io.Closer].
func (b *body) Close() error {
	b.end(http.ErrBodyReadAfterClose)
	return nil
}
