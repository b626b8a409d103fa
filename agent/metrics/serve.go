package metrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/loam-os/loam/agent/link/neighbour"
	"github.com/loam-os/loam/agent/listen"
)

// Address is where metrics are served by default: to this host only, as there
// is no authentication.
const Address = "127.0.0.1:2752"

// Limit is how long the agent's loop may take to answer.
const Limit = 5 * time.Second

// The server runs in the agent, which the kernel kills last if memory is short.
// A node also shares chunks of updates with it, to everyone on the network.
const maxConnections = 64

const contentType = "text/plain; version=0.0.4; charset=utf-8"

// Take requests a Sample from the agent's loop.
type Take func(ctx context.Context) (Sample, error)

// Handler serves /metrics: 503 if the agent's loop does not answer within
// Limit.
func Handler(take Take) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", answer(take, func(w http.ResponseWriter, s Sample) {
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, s.Text()) // The client may have closed the connection.
	}))
	return mux
}

// Serve serves on a listener, which it closes, until ctx ends and all requests
// are answered.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler:        handler,
		BaseContext:    func(net.Listener) context.Context { return ctx },
		ReadTimeout:    Limit,
		WriteTimeout:   2 * Limit,
		IdleTimeout:    2 * time.Minute,
		MaxHeaderBytes: 16 << 10,
	}

	ended := make(chan error, 1)
	listener = listen.Limit(listener, maxConnections, neighbour.Of)
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
		return fmt.Errorf("serve at %s: %w", listener.Addr(), err)
	}

	return nil
}
