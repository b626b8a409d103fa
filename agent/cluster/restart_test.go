package cluster

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/status"
)

func TestUnitsToRestart(t *testing.T) {
	configured := []status.Unit{
		{Name: "a.service"},
		{Name: "b.timer"},
		{Name: "loam-own.service"},
		{Name: "gardener-node-agent.service"},
	}

	for _, test := range []struct {
		name       string
		annotation string
		units      []string
		refused    []string
	}{
		{name: "nothing"},
		{
			name:       "a service of the configuration",
			annotation: " a,, gardener-node-agent ",
			units:      []string{"a.service"},
		},
		{
			name:       "services of the system",
			annotation: "kubelet, systemd-journald",
			units:      []string{"kubelet.service", "systemd-journald.service"},
		},
		{
			name:       "what is Loam's, and what is not a service",
			annotation: "loam-debug-shell@ttyS0.service,poweroff.target,loam-agent,b.timer,loam-own,a",
			units:      []string{"a.service"},
			refused: []string{
				"loam-debug-shell@ttyS0.service",
				"poweroff.target",
				"loam-agent.service",
				"b.timer",
				"loam-own.service",
			},
		},
		{
			name:       "a service that no configuration has",
			annotation: "sshd,d.service",
			refused:    []string{"sshd.service", "d.service"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			units, refused := restarts(test.annotation, configured)
			want := [][]string{test.units, test.refused}
			if diff := cmp.Diff(want, [][]string{units, refused}); diff != "" {
				t.Errorf("restarted and refused (-want +got):\n%s", diff)
			}
		})
	}
}

// A service that ends the agent would be restarted after each start if the
// annotation were still there.
func TestTheAnnotationGoesBeforeTheRestart(t *testing.T) {
	errRemove := errors.New("conflict")

	for _, test := range []struct {
		name   string
		phase  status.Phase
		remove error
		want   []string
		events []string
	}{
		{
			name:  "removed",
			phase: status.Applied,
			want:  []string{"removed", "restarted a.service"},
			events: []string{
				"not restarted: b.timer: only services of the configuration can be, and " +
					strings.Join(restartable, ", "),
				"restarted a.service",
			},
		},
		{
			name:   "not removed",
			phase:  status.Applied,
			remove: errRemove,
			want:   []string{"removed"},
		},
		{name: "the configuration is not known yet"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var done []string
			jobs := newTestJobs(t)
			inbox := newInbox()
			c := restartController{
				remove: func(context.Context, *world) error {
					done = append(done, "removed")
					return test.remove
				},
				restarts: restarter{
					restart: func(_ context.Context, units []string) error {
						done = append(done, "restarted "+strings.Join(units, ", "))
						return nil
					},
					jobs:  jobs,
					inbox: inbox,
				},
			}

			w := newWorld()
			w.setNode(annotated(restartAnnotation, "a, b.timer"))
			w.status = status.Status{
				Phase: test.phase,
				Units: []status.Unit{{Name: "a.service"}, {Name: "b.timer"}},
			}

			if _, err := c.step(t.Context(), &w); !errors.Is(err, test.remove) {
				t.Fatalf("%v, want %v", err, test.remove)
			}
			jobs.group.Wait()

			if diff := cmp.Diff(test.want, done); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}

			var events []string
			for len(inbox.events) > 0 {
				events = append(events, (<-inbox.events).message)
			}
			if diff := cmp.Diff(test.events, events); diff != "" {
				t.Errorf("Events (-want +got):\n%s", diff)
			}
		})
	}
}

// newTestJobs returns jobs whose results are handled at once, on their own
// goroutine.
func newTestJobs(t *testing.T) jobs {
	return jobs{
		ctx:   t.Context(),
		group: &sync.WaitGroup{},
		post:  func(_ context.Context, f func()) { f() },
	}
}
