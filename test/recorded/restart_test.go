package recorded

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// held is a systemd whose restarts tell that they have begun, and wait.
type held struct {
	*Systemd
	begun, free chan struct{}
}

func (h *held) Restart(ctx context.Context, name string) error {
	h.begun <- struct{}{}
	select {
	case <-h.free:
	case <-ctx.Done():
		return ctx.Err()
	}
	return h.Systemd.Restart(ctx, name)
}

func TestAnAnnotationRestartsUnits(t *testing.T) {
	t.Parallel()
	w := joinedWorld(t, osc("one"))
	for _, tt := range []struct{ name, asked, jobs string }{
		{
			"a service, and a unit of another type",
			"a, b.timer",
			"restart a.service, restart b.timer",
		},
		{"the agent and others", "gardener-node-agent, a", "restart a.service"},
		{"the agent alone", "gardener-node-agent", ""},
		{"the agent alone, with its type", "gardener-node-agent.service", ""},
		{"the same once more", "gardener-node-agent.service", ""},
		{"nothing", " ,", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w.systemd.Calls()
			w.annotate(restarted, tt.asked)
			w.carries(restarted, "")
			if jobs := strings.Join(w.systemd.Calls(), ", "); jobs != tt.jobs {
				t.Errorf("jobs %q, want %q", jobs, tt.jobs)
			}
		})
	}

	w.stop()

	t.Run("a restart that takes long holds up no token, and is done once", func(t *testing.T) {
		h := &held{w.systemd, make(chan struct{}, 16), make(chan struct{})}
		w.adjust = func(n *Node) { n.Agent.Units = h }
		w.startAgain()
		w.annotate(restarted, "slow")
		<-h.begun

		for range 3 {
			w.poke()
		}

		w.annotate("another", "annotation") // A turn of the session that sees the Node once more.
		w.poke()
		w.carries(restarted, "slow")
		close(h.free)
		w.carries(restarted, "")
		w.poke()

		jobs := strings.Join(w.systemd.Calls(), ", ")
		if jobs != "restart slow.service" || len(h.begun) > 0 {
			t.Errorf("jobs %q", jobs)
		}
	})

	w.stop()

	t.Run("a restart that was withdrawn and is requested again", func(t *testing.T) {
		h := &held{w.systemd, make(chan struct{}, 16), make(chan struct{})}
		w.adjust = func(n *Node) { n.Agent.Units = h }
		w.startAgain()
		w.annotate(restarted, "slow")
		<-h.begun
		w.must("PATCH", nodes+"/node-1", `{"metadata": {"annotations": {"`+restarted+`": null}}}`)
		w.nodeSeen()
		close(h.free)

		w.await("the restart", func() error {
			if len(w.systemd.Calls()) == 0 {
				return errors.New("none")
			}
			return nil
		})

		w.poke() // The session has heard of it.
		w.poke()
		w.annotate(restarted, "slow")
		w.carries(restarted, "")

		if len(h.begun) != 1 {
			t.Errorf("restarted %d times", len(h.begun))
		}
	})
}

// TestARestartOutlivesItsSession has the session end while one is under way.
func TestARestartOutlivesItsSession(t *testing.T) {
	t.Parallel()
	w := joinedWorld(t, osc("one"))
	w.stop()
	w.systemd.Calls()
	h := &held{w.systemd, make(chan struct{}, 16), make(chan struct{})}
	w.adjust = func(n *Node) { n.Agent.Units = h }
	w.startAgain()
	w.annotate(restarted, "slow")
	<-h.begun

	// The next session: the Node names another Secret.
	w.put("ca", map[string]string{"osc.yaml": osc("one")})
	w.must("PATCH", nodes+"/node-1",
		`{"metadata": {"labels": {"worker.gardener.cloud/gardener-node-agent-secret-name": "ca"}}}`)

	w.await("another Secret", func() error {
		if s := w.node.Cluster.Link().Secret; s != "ca" {
			return errors.New(s)
		}
		return nil
	})

	w.poke()
	close(h.free)
	w.carries(restarted, "")
	w.poke()

	if jobs := strings.Join(w.systemd.Calls(), ", "); jobs != "restart slow.service" {
		t.Errorf("jobs %q", jobs)
	}
}
