package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

const (
	// maxBody is the largest request: a document with inline files has some
	// MiB.
	maxBody = 8 << 20
	// sendTime is how long a client may take to send its request.
	sendTime = 10 * time.Second
)

// Serve answers requests on listener with agent until ctx ends. Then it closes
// the listener and returns when the last request is answered.
//
// A request is completed even if the client no longer waits: agent's methods get
// ctx, not the request's context. An answer may take any time.
func Serve(ctx context.Context, listener net.Listener, agent Agent) error {
	ctx, cancel := context.WithCancel(ctx)
	server := &http.Server{
		Handler:           handler(ctx, agent),
		ReadHeaderTimeout: sendTime,
		ConnContext:       withPeer,
	}

	ended := make(chan error)
	go func() {
		<-ctx.Done()
		ended <- server.Shutdown(context.WithoutCancel(ctx))
	}()

	err := server.Serve(listener)
	cancel()
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}

	err = errors.Join(err, <-ended)
	if err != nil {
		return fmt.Errorf("serve on %s: %w", listener.Addr(), err)
	}

	return nil
}

// answer answers a request of type Q with the result of do, under ctx.
func answer[Q, A any](
	ctx context.Context, do func(context.Context, Q) (A, error),
) http.HandlerFunc {
	return answerTo(ctx, func(ctx context.Context, _ http.ResponseWriter, request Q) (A, error) {
		return do(ctx, request)
	})
}

// answerTo is answer for what also sends informational responses.
func answerTo[Q, A any](
	ctx context.Context, do func(context.Context, http.ResponseWriter, Q) (A, error),
) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := refused(r.Context()); err != nil {
			reply(w, http.StatusForbidden, asFailure(err))
			return
		}

		var request Q
		if err := decode(w, r, &request); err != nil {
			reply(w, badRequest(err), asFailure(err))
			return
		}

		done, err := do(ctx, w, request)
		if err != nil {
			f := asFailure(err)
			reply(w, f.status(), f)
			return
		}

		reply(w, http.StatusOK, done)
	}
}

// decode reads the one JSON value of a request. An unknown field is an error,
// because it may matter to the client.
func decode(w http.ResponseWriter, r *http.Request, into any) error {
	controller := http.NewResponseController(w)
	if err := controller.SetReadDeadline(time.Now().Add(sendTime)); err != nil {
		return fmt.Errorf("read request %s: %w", r.URL.Path, err)
	}

	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("read request %s: %w", r.URL.Path, err)
	}

	if _, err := decoder.Token(); err == nil {
		return fmt.Errorf("read request %s: more than one JSON value", r.URL.Path)
	} else if !errors.Is(err, io.EOF) {
		return fmt.Errorf("read request %s: %w", r.URL.Path, err)
	}

	// Not after an error, since the server still reads the rest of the request.
	return controller.SetReadDeadline(time.Time{})
}

func badRequest(err error) int {
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return http.StatusRequestEntityTooLarge
	}
	return http.StatusBadRequest
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// An error means that the client no longer waits.
	_ = json.NewEncoder(w).Encode(body)
}
