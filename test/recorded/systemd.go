// Package recorded is a node without a systemd: the real agent, engine and
// cluster code on a directory, with a systemd that only records. What is
// measured and tested so is everything but systemd's own time.
package recorded

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/loam-os/loam/agent/unit"
)

// Systemd keeps units in memory. A job takes Job; every start succeeds, unless
// Obstacle returns an error.
type Systemd struct {
	Job time.Duration

	// Obstacle is called before each job, nil for no obstacle. It may wait.
	Obstacle func(ctx context.Context, verb, name string) error

	mu      sync.Mutex
	failed  map[string]bool
	running map[string]int
	starts  int
	calls   []string
}

// Start implements [apply.Units] and [loop.Units]; so do the following.
func (s *Systemd) Start(ctx context.Context, name string) error { return s.job(ctx, "start", name) }

func (s *Systemd) Stop(ctx context.Context, name string) error { return s.job(ctx, "stop", name) }

func (s *Systemd) Restart(ctx context.Context, name string) error {
	return s.job(ctx, "restart", name)
}

func (s *Systemd) ReloadUnit(ctx context.Context, name string) error {
	return s.job(ctx, "reload", name)
}

func (s *Systemd) Reload(ctx context.Context) error { return s.job(ctx, "daemon-reload", "") }

func (s *Systemd) ResetFailed(context.Context, string) {}

func (s *Systemd) job(ctx context.Context, verb, name string) error {
	select {
	case <-time.After(s.Job):
	case <-ctx.Done():
		return ctx.Err()
	}

	var obstacle error
	if s.Obstacle != nil {
		obstacle = s.Obstacle(ctx, verb, name)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, verb+" "+name)

	if s.running == nil {
		s.running = map[string]int{}
		s.failed = map[string]bool{}
	}
	s.failed[name] = obstacle != nil
	if obstacle != nil {
		delete(s.running, name)
		return obstacle
	}

	switch verb {
	case "stop":
		delete(s.running, name)
	case "start", "restart":
		if verb == "restart" || s.running[name] == 0 {
			s.starts++
			s.running[name] = s.starts
		}
	}

	return nil
}

func (s *Systemd) Show(_ context.Context, names []string) ([]unit.State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	states := make([]unit.State, len(names))
	for i, name := range names {
		states[i] = unit.State{
			Name:   name,
			ID:     name,
			Load:   "loaded",
			Active: "inactive",
			Sub:    "dead",
		}
		if s.failed[name] {
			states[i].Active = "failed"
			states[i].Sub = "failed"
		}
		if n := s.running[name]; n > 0 {
			states[i].Active = "active"
			states[i].Sub = "running"
			states[i].InvocationID = fmt.Sprintf("%032x", n)
		}
	}

	return states, nil
}

func (s *Systemd) Changes(ctx context.Context) (<-chan string, error) {
	changes := make(chan string)
	context.AfterFunc(ctx, func() { close(changes) })
	return changes, nil
}

// Calls are what was asked for since the last time, "restart a.service".
func (s *Systemd) Calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := slices.Clone(s.calls)
	s.calls = nil
	return calls
}
