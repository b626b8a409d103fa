package metrics

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

// HealthAddress is where the agent's health is served, to this host only.
const HealthAddress = "127.0.0.1:2751"

// checks are the health checks of each path, under the names in Gardener's
// agent. "ping": the loop answers. "informer-sync": the agent knows the
// configuration of its cluster. A node whose API server has gone away since is
// healthy: it continues with what it has.
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
// check at its own path below them: 200 if all pass, else 503 with the reason.
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

// answer passes the answer of the agent's loop to write. If the loop does not
// answer within Limit, it responds with 503.
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
