package liveness_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/liveness"
)

var (
	errDead = errors.New("no answer")
	errJob  = errors.New("restart kubelet.service: timeout")
)

// node is a node with two units, and a record of what happened when.
type node struct {
	begin    time.Time
	standing liveness.Standing

	// dead are the units that do not answer, hangs those whose probe never
	// returns.
	dead, hangs map[string]bool
	patience    map[string]int

	// helps makes a restarted unit answer; restart is the result of a restart.
	helps   bool
	restart error

	// then changes the node after 100 s; nil for no change.
	then  func(n *node)
	diary []string
}

func (n *node) record(format string, args ...any) {
	n.diary = append(n.diary,
		fmt.Sprintf("%3.0fs ", time.Since(n.begin).Seconds())+fmt.Sprintf(format, args...))
}

func (n *node) probe(unit string) func(context.Context) error {
	return func(ctx context.Context) error {
		switch {
		case n.hangs[unit]:
			<-ctx.Done()
			return ctx.Err()
		case n.dead[unit]:
			return errDead
		}
		return nil
	}
}

func (n *node) watch() liveness.Watch {
	return liveness.Watch{
		Probes: map[string]func(context.Context) error{
			"containerd.service": n.probe("containerd.service"),
			"kubelet.service":    n.probe("kubelet.service"),
		},
		Patience: n.patience,
		Standings: func(_ context.Context, units []string) (map[string]liveness.Standing, error) {
			if n.then != nil && time.Since(n.begin) > 100*time.Second {
				n.then(n)
			}
			all := map[string]liveness.Standing{}
			for _, unit := range units {
				all[unit] = n.standing
			}
			return all, nil
		},
		Restart: func(_ context.Context, units []string) error {
			n.record("asked to restart %v", units)
			for _, unit := range units {
				if n.helps {
					delete(n.dead, unit)
					delete(n.hangs, unit)
				}
			}
			return n.restart
		},
		Report: func(e liveness.Event) {
			n.record("%s %s %s %v", e.Unit, e.Word, e.Problem, e.Err)
		},
	}
}

func TestWatch(t *testing.T) {
	for _, test := range []struct {
		name string
		node node
		want []string
	}{
		{name: "all is well", node: node{standing: liveness.Up}},
		{
			name: "kubelet is dead until it is restarted",
			node: node{
				standing: liveness.Up,
				dead:     map[string]bool{"kubelet.service": true},
				helps:    true,
			},
			want: []string{
				" 30s kubelet.service failing no answer <nil>",
				" 90s asked to restart [kubelet.service]",
				" 90s kubelet.service restart no answer <nil>",
				"120s kubelet.service recovered  <nil>",
			},
		},
		{
			name: "both hang: probed side by side, restarted together",
			node: node{
				standing: liveness.Up,
				hangs:    map[string]bool{"kubelet.service": true, "containerd.service": true},
				helps:    true,
			},
			want: []string{
				" 40s containerd.service failing context deadline exceeded <nil>",
				" 40s kubelet.service failing context deadline exceeded <nil>",
				"100s asked to restart [containerd.service kubelet.service]",
				"100s containerd.service restart context deadline exceeded <nil>",
				"100s kubelet.service restart context deadline exceeded <nil>",
				"120s containerd.service recovered  <nil>",
				"120s kubelet.service recovered  <nil>",
			},
		},
		{
			name: "a unit that gets more time than the other",
			node: node{
				standing: liveness.Up,
				dead:     map[string]bool{"kubelet.service": true, "containerd.service": true},
				patience: map[string]int{"containerd.service": 5},
				helps:    true,
			},
			want: []string{
				" 30s containerd.service failing no answer <nil>",
				" 30s kubelet.service failing no answer <nil>",
				" 90s asked to restart [kubelet.service]",
				" 90s kubelet.service restart no answer <nil>",
				"120s kubelet.service recovered  <nil>",
				"180s asked to restart [containerd.service]",
				"180s containerd.service restart no answer <nil>",
				"210s containerd.service recovered  <nil>",
			},
		},
		{
			name: "a restart that fails is reported and retried",
			node: node{
				standing: liveness.Up,
				dead:     map[string]bool{"kubelet.service": true},
				restart:  errJob,
			},
			want: []string{
				" 30s kubelet.service failing no answer <nil>",
				" 90s asked to restart [kubelet.service]",
				" 90s kubelet.service restart no answer restart kubelet.service: timeout",
				"210s asked to restart [kubelet.service]",
				"210s kubelet.service restart no answer restart kubelet.service: timeout",
			},
		},
		{
			name: "a node that applies a change is asked again",
			node: node{
				standing: liveness.Up,
				dead:     map[string]bool{"kubelet.service": true},
				restart:  fmt.Errorf("restart: %w", liveness.ErrBusy),
				then:     func(n *node) { n.restart = nil },
			},
			want: []string{
				" 30s kubelet.service failing no answer <nil>",
				" 90s asked to restart [kubelet.service]",
				"120s asked to restart [kubelet.service]",
				"120s kubelet.service restart no answer <nil>",
				"240s asked to restart [kubelet.service]",
				"240s kubelet.service restart no answer <nil>",
			},
		},
		{
			name: "what is down is not probed",
			node: node{standing: liveness.Down, hangs: map[string]bool{"kubelet.service": true}},
		},
		{
			name: "what comes up later is",
			node: node{
				standing: liveness.Absent,
				dead:     map[string]bool{"kubelet.service": true},
				then:     func(n *node) { n.standing = liveness.Up },
			},
			want: []string{
				"120s kubelet.service failing no answer <nil>",
				"180s asked to restart [kubelet.service]",
				"180s kubelet.service restart no answer <nil>",
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := test.node
				n.begin = time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 255*time.Second)
				defer cancel()

				n.watch().Run(ctx)
				if diff := cmp.Diff(test.want, n.diary); diff != "" {
					t.Errorf("diary (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestWatchEndsWithinAProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := node{
			begin:    time.Now(),
			standing: liveness.Up,
			hangs:    map[string]bool{"kubelet.service": true},
		}

		ctx, cancel := context.WithTimeout(t.Context(), 35*time.Second)
		defer cancel()
		n.watch().Run(ctx)

		if took := time.Since(n.begin); took != 35*time.Second {
			t.Errorf("ended after %s", took)
		}
		if len(n.diary) > 0 {
			t.Errorf("reported %q after the end", n.diary)
		}
	})
}

func TestWatchWithoutANodeSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := node{
			begin:    time.Now(),
			standing: liveness.Up,
			dead:     map[string]bool{"kubelet.service": true},
		}

		w := n.watch()
		w.Standings = func(context.Context, []string) (map[string]liveness.Standing, error) {
			return nil, errors.New("the loop has ended")
		}

		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Second)
		defer cancel()
		w.Run(ctx)

		if len(n.diary) > 0 {
			t.Errorf("reported %q", n.diary)
		}
	})
}
