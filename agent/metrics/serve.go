package metrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// Address is where metrics are served by default: for this host only, as nobody
// is asked who they are.
const Address = "127.0.0.1:2752"

// Limit is how long the agent's loop has to answer.
const Limit = 5 * time.Second

const contentType = "text/plain; version=0.0.4; charset=utf-8"

// Take has the agent's loop give a Sample.
type Take func(ctx context.Context) (Sample, error)

// Handler serves /metrics, and /healthz, which is 200 if the loop answers
// within Limit. If it does not, both are 503.
func Handler(take Take) http.Handler {
	answer := func(kind string, text func(Sample) string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeoutCause(r.Context(), Limit, fmt.Errorf("the agent's loop has not answered for %s", Limit))
			defer cancel()
			s, err := take(ctx)
			if err != nil {
				if cause := context.Cause(ctx); cause != nil {
					err = cause
				}
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			w.Header().Set("Content-Type", kind)
			_, _ = io.WriteString(w, text(s)) // Who has hung up needs no answer.
		}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", answer(contentType, Sample.Text))
	mux.Handle("GET /healthz", answer("text/plain; charset=utf-8", func(Sample) string { return "ok\n" }))
	return mux
}

// Serve serves on a listener, which it closes, until ctx ends and every answer
// is given.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler: handler, BaseContext: func(net.Listener) context.Context { return ctx },
		ReadTimeout: Limit, WriteTimeout: 2 * Limit, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), Limit)
		defer cancel()
		err = errors.Join(server.Shutdown(stop), server.Close())
		<-ended
	}
	if err != nil {
		return fmt.Errorf("serve metrics at %s: %w", listener.Addr(), err)
	}
	return nil
}
