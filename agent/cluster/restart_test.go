package cluster

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	core "k8s.io/api/core/v1"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/turns"
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

// With a policy, a node takes a turn to restart services.
func TestARestartTakesATurn(t *testing.T) {
	ready := []core.NodeCondition{{Type: core.NodeReady, Status: core.ConditionTrue}}
	const none = ""
	for _, tt := range []struct {
		name, asks string
		edit       func(w *world)

		need   turns.Need
		class  turns.Class
		may    bool
		drains bool
	}{
		{"nothing", none, func(*world) {}, turns.NeedNothing, turns.None, true, false},
		{"a kubelet", "kubelet", func(*world) {}, turns.NeedTurn, turns.Kubelet, false, false},
		{"containerd", "containerd", func(*world) {}, turns.NeedTurn, turns.Pods, false, false},
		{"what is refused", "sshd", func(*world) {}, turns.NeedNothing, turns.None, true, false},
		{"without a policy", "kubelet", func(w *world) {
			w.pending.policy = nil
			w.turn.byPolicy = false
		}, turns.NeedNothing, turns.Kubelet, true, false},
		{"with a policy that cannot be read", "kubelet", func(w *world) {
			w.pending.policyErr = os.ErrInvalid
		}, turns.NeedNothing, turns.Kubelet, false, false},
		{"with a turn for something else", "kubelet", func(w *world) {
			w.turn.kept = turns.Turn{Phase: turns.Holding, Holder: turns.Holder{Target: "new"}}
		}, turns.NeedTurn, turns.Kubelet, false, false},
		{"with its turn", "kubelet", func(w *world) {
			w.turn.kept = turns.Turn{Phase: turns.Holding}
		}, turns.NeedNothing, turns.Kubelet, true, false},
		{"with its turn, before its pods are gone", "containerd", func(w *world) {
			w.turn.kept = turns.Turn{Phase: turns.Holding}
		}, turns.NeedNothing, turns.Pods, false, true},
		{"with its turn, when a budget keeps its pods", "containerd", func(w *world) {
			w.turn.kept = turns.Turn{Phase: turns.Holding}
			w.turn.drain.postponed = "budget"
		}, turns.NeedPostpone, turns.Pods, false, true},
		{"another one while it restarts", "kubelet", func(w *world) {
			w.turn.kept = turns.Turn{Phase: turns.Holding}
			w.restarting = true
		}, turns.NeedNothing, turns.Kubelet, false, false},
		{"while it restarts", none, func(w *world) {
			w.turn.kept = turns.Turn{Phase: turns.Holding}
			w.restarting = true
		}, turns.NeedNothing, turns.None, false, false},
		{"after it, and the Node is not Ready", none, func(w *world) {
			w.turn.kept = turns.Turn{Phase: turns.Holding}
			w.node.Status.Conditions = nil
		}, turns.NeedNothing, turns.None, true, false},
		{"after it", none, func(w *world) {
			w.turn.kept = turns.Turn{Phase: turns.Holding}
		}, turns.NeedGive, turns.None, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := withPolicy(newWorld())
			w.turn.byPolicy = true
			w.node.Annotations[restartAnnotation] = tt.asks
			w.node.Status.Conditions = ready
			tt.edit(&w)

			c := restartChange(w)
			if c.need != tt.need || c.class != tt.class || c.drains != tt.drains {
				t.Errorf("%+v", c)
			}
			if may := mayRestartServices(w); may != tt.may {
				t.Errorf("it may restart: %t", may)
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
