package metrics_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/loam-os/loam/agent/metrics"
	"github.com/loam-os/loam/agent/status"
)

func TestHealth(t *testing.T) {
	in := func(c *status.Cluster) metrics.Take {
		return func(context.Context) (metrics.Sample, error) {
			return metrics.Sample{Status: status.Status{Cluster: c}}, nil
		}
	}

	alone := in(nil)
	reached := in(&status.Cluster{
		Server:  "https://api",
		Reached: true,
		Problem: "connection refused",
	})

	unreached := in(&status.Cluster{Server: "https://api", Problem: "connection refused"})
	hangs := func(ctx context.Context) (metrics.Sample, error) {
		<-ctx.Done()
		return metrics.Sample{}, ctx.Err()
	}

	const (
		silent = "the agent's loop has not answered for 5s\n"
		yet    = "informer-sync: the API server https://api has not been reached yet: " +
			"connection refused\n"
	)

	for _, test := range []struct {
		name, path string
		take       metrics.Take
		code       int
		body       string
	}{
		{"a node without a cluster is well", "/healthz", alone, 200, "ok\n"},
		{"and ready", "/readyz", alone, 200, "ok\n"},
		{"an API server that was reached and is gone", "/healthz", reached, 200, "ok\n"},
		{"the node is ready for it, too", "/readyz", reached, 200, "ok\n"},
		{"an API server that never answered", "/healthz", unreached, 503, yet},
		{"the loop answers all the same", "/healthz/ping", unreached, 200, "ok\n"},
		{"the one check by itself", "/healthz/informer-sync", unreached, 503, yet},
		{"not ready", "/readyz", unreached, 503, yet},
		{"not ready, by the check's name", "/readyz/informer-sync", unreached, 503, yet},
		{"a loop that hangs", "/healthz", hangs, 503, silent},
		{"a loop that hangs does not answer a ping", "/healthz/ping", hangs, 503, silent},
		{"nothing else is here", "/metrics", alone, 404, "404 page not found\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := httptest.NewRecorder()
				metrics.Health(test.take).ServeHTTP(w,
					httptest.NewRequestWithContext(t.Context(), http.MethodGet, test.path, nil))
				if w.Code != test.code || w.Body.String() != test.body {
					t.Errorf("%d %q, want %d %q", w.Code, w.Body, test.code, test.body)
				}
			})
		})
	}
}
