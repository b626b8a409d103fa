package metrics

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

// HealthAddress is where the agent's own health is served, for this host only.
const HealthAddress = "127.0.0.1:2751"

// checks are what a path of health asks, by the names that Gardener's agent has
// for them: "ping" is that the loop answers, "informer-sync" that the agent
// knows what its cluster wants of it. A node whose API server has gone away
// since is well: it goes on with what it knows.
var checks = map[string]func(Sample) error{
	"ping": func(Sample) error { return nil },
	"informer-sync": func(s Sample) error {
		if c := s.Status.Cluster; c != nil && !c.Reached {
			return fmt.Errorf("the API server %s has not been reached yet: %s", c.Server, c.Problem)
		}
		return nil
	},
}

// Health serves /healthz (both checks) and /readyz (informer-sync), and each
// check by itself below them: 200 if all is well, else 503 with the reason.
func Health(take Take) http.Handler {
	mux := http.NewServeMux()
	serve := func(path string, names ...string) {
		mux.Handle("GET "+path, answer(take, func(w http.ResponseWriter, s Sample) {
			for _, name := range names {
				if err := checks[name](s); err != nil {
					http.Error(w, name+": "+err.Error(), http.StatusServiceUnavailable)
					return
				}
			}
			_, _ = io.WriteString(w, "ok\n")
		}))
	}

	serve("/healthz", "ping", "informer-sync")
	serve("/healthz/ping", "ping")
	serve("/healthz/informer-sync", "informer-sync")
	serve("/readyz", "informer-sync")
	serve("/readyz/informer-sync", "informer-sync")

	return mux
}

// answer gives what the agent's loop says within Limit to write; if it says
// nothing, the answer is 503.
func answer(take Take, write func(w http.ResponseWriter, s Sample)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeoutCause(r.Context(), Limit,
			fmt.Errorf("the agent's loop has not answered for %s", Limit))
		defer cancel()

		s, err := take(ctx)
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}

		write(w, s)
	}
}
