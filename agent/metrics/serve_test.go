package metrics_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loam-os/loam/agent/metrics"
)

func TestHandler(t *testing.T) {
	answers := func(context.Context) (metrics.Sample, error) { return busy(), nil }
	hangs := func(ctx context.Context) (metrics.Sample, error) {
		<-ctx.Done()
		return metrics.Sample{}, ctx.Err()
	}

	ended := func(context.Context) (metrics.Sample, error) {
		return metrics.Sample{}, errors.New("the loop has ended")
	}

	for _, test := range []struct {
		name, method, path string
		take               metrics.Take
		code               int
		kind, body         string
		took               time.Duration
	}{
		{
			name: "metrics",
			path: "/metrics",
			take: answers,
			code: 200,
			kind: "text/plain; version=0.0.4; charset=utf-8",
			body: busy().Text(),
		},
		{
			name: "metrics of a loop that hangs",
			path: "/metrics",
			take: hangs,
			code: 503,
			body: "the agent's loop has not answered for 5s\n",
			took: metrics.Limit,
		},
		{
			name: "metrics of a loop that has ended",
			path: "/metrics",
			take: ended,
			code: 503,
			body: "the loop has ended\n",
		},
		{
			name: "nothing else is here",
			path: "/debug/pprof/",
			take: answers,
			code: 404,
			body: "404 page not found\n",
		},
		{
			name:   "no answer is written",
			method: http.MethodPost,
			path:   "/metrics",
			take:   answers,
			code:   405,
			body:   "Method Not Allowed\n",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				w := httptest.NewRecorder()
				metrics.Handler(test.take).ServeHTTP(w,
					httptest.NewRequestWithContext(t.Context(), test.method, test.path, nil))
				if w.Code != test.code || w.Body.String() != test.body ||
					!strings.HasPrefix(w.Header().Get("Content-Type"), test.kind) {
					t.Errorf("%d %s %q, want %d %q",
						w.Code, w.Header(), w.Body, test.code, test.body)
				}

				if took := time.Since(began); took != test.took {
					t.Errorf("after %s, want %s", took, test.took)
				}
			})
		})
	}
}

func TestServeEndsWithItsContextAndLastAnswer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	take := func(ctx context.Context) (metrics.Sample, error) {
		cancel() // The agent ends during the request.
		<-ctx.Done()
		return busy(), nil
	}

	served := make(chan error)
	go func() { served <- metrics.Serve(ctx, listener, metrics.Handler(take)) }()

	response, err := http.Get("http://" + listener.Addr().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()

	body, err := io.ReadAll(response.Body)
	if err != nil || string(body) != busy().Text() {
		t.Errorf("answer %q: %v", body, err)
	}

	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestServeSaysWhyItEnds(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	err = metrics.Serve(t.Context(), listener, http.NotFoundHandler())
	if err == nil || !strings.HasPrefix(err.Error(), "serve at 127.0.0.1:") {
		t.Errorf("error %v", err)
	}
}
