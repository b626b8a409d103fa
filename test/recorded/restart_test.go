package recorded

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/loam-os/loam/test/units"
)

// held is a systemd whose restarts tell that they have begun, and wait.
type held struct {
	*units.Fake
	begun, free chan struct{}
}

func (h *held) Restart(ctx context.Context, name string) error {
	h.begun <- struct{}{}
	select {
	case <-h.free:
	case <-ctx.Done():
		return ctx.Err()
	}
	return h.Fake.Restart(ctx, name)
}

// restarts waits until systemd has been asked for these jobs.
func (w *fixture) restarts(want string) {
	w.Helper()
	var jobs []string
	w.await(want, func() error {
		jobs = append(jobs, w.systemd.Calls()...)
		if got := strings.Join(jobs, ", "); got != want {
			return errors.New(got)
		}
		return nil
	})
}

func TestAnAnnotationRestartsUnits(t *testing.T) {
	t.Parallel()
	w := joinedFixture(t, osc("one"))
	for _, tt := range []struct{ name, asked, jobs string }{
		{
			"services of the system",
			"kubelet, containerd.service",
			"restart kubelet.service, restart containerd.service",
		},
		{"the agent and others", "gardener-node-agent, kubelet", "restart kubelet.service"},
		{"the agent alone", "gardener-node-agent", ""},
		{"the agent alone, with its type", "gardener-node-agent.service", ""},
		{"the same once more", "gardener-node-agent.service", ""},
		{"nothing", " ,", ""},
		{
			"what is not a service of the configuration",
			"loam-agent, loam-debug-shell@ttyS0.service, reboot.target, sshd, kubelet",
			"restart kubelet.service",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w.systemd.Calls()
			w.annotate(restarted, tt.asked)
			w.carries(restarted, "")
			w.restarts(tt.jobs)
		})
	}

	w.tellsOf("SystemDUnitRestart", "Warning not restarted: loam-agent.service, "+
		"loam-debug-shell@ttyS0.service, reboot.target, sshd.service: ", "systemd-journald.service")
	w.stop()

	t.Run("the request is gone before the restart begins, and is done once", func(t *testing.T) {
		h := &held{w.systemd, make(chan struct{}, 16), make(chan struct{})}
		w.adjust = func(n *Node) { n.Agent.Units = h }
		w.startAgain()
		w.annotate(restarted, "containerd")
		<-h.begun
		w.carries(restarted, "")

		for range 3 {
			w.poke() // Nothing else waits for it.
		}

		w.annotate("another", "annotation") // A turn of the session that sees the Node once more.
		w.poke()
		close(h.free)
		w.restarts("restart containerd.service")

		if len(h.begun) > 0 {
			t.Errorf("restarted %d times more", len(h.begun))
		}
	})
}

// TestARestartOutlivesItsSession has the session end while one is under way.
func TestARestartOutlivesItsSession(t *testing.T) {
	t.Parallel()
	w := joinedFixture(t, osc("one"))
	w.stop()
	w.systemd.Calls()
	h := &held{w.systemd, make(chan struct{}, 16), make(chan struct{})}
	w.adjust = func(n *Node) { n.Agent.Units = h }
	w.startAgain()
	w.annotate(restarted, "containerd")
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
	w.restarts("restart containerd.service")
	w.carries(restarted, "")
}
