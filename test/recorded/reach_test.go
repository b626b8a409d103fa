package recorded

import (
	"context"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	agent "github.com/loam-os/loam/agent/cluster"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/test/cluster"
	"github.com/loam-os/loam/test/units"
)

// moody is a systemd all of whose units are as the test says.
type moody struct {
	*units.Fake

	mu   sync.Mutex
	mood string
}

// become gives the units that state without a signal; "" keeps their own.
func (m *moody) become(mood string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mood = mood
}

func (m *moody) Show(ctx context.Context, names []string) ([]unit.State, error) {
	all, err := m.Fake.Show(ctx, names)
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range all {
		if m.mood != "" {
			all[i].Active = m.mood
			all[i].Sub = m.mood
		}
	}
	return all, err
}

// ways counts how often it was read how the cluster is reached, and may have
// another authority be trusted.
type ways struct {
	mu    sync.Mutex
	read  int
	other []byte
}

func (y *ways) adjust(n *Node) {
	good := n.Cluster.Config
	n.Cluster.Env.Reload = func() (agent.Config, error) {
		y.mu.Lock()
		defer y.mu.Unlock()
		c := good
		y.read++

		if y.other != nil {
			c.CA = y.other
		}

		return c, nil
	}
}

func (y *ways) trust(other []byte) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.other = other
}

func (y *ways) count() int {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.read
}

// unitsReady waits until the Node says so of its units.
func (w *fixture) unitsReady(value string) {
	w.Helper()
	w.nodeIs("told of its units", func(n object) bool {
		return slices.ContainsFunc(n.Status.Conditions, func(c condition) bool {
			return c.Type == "SystemdUnitsReady" && c.Status == value
		})
	})
}

func TestAnAppliedConfigurationStays(t *testing.T) {
	t.Parallel()
	w := newFixture(t, cluster.Options{Controllers: true})
	y := &ways{}
	m := &moody{Fake: w.systemd, mood: "failed"}
	m.News = make(chan string)
	w.adjust = func(n *Node) {
		n.Agent.Units = m
		y.adjust(n)
	}

	w.join(osc("one"))

	t.Run(
		"how the cluster is reached is read, whatever becomes of a unit that holds nothing",
		func(t *testing.T) {
			if n := y.count(); n != 1 {
				t.Errorf("read %d times", n)
			}
			m.become("")
			m.News <- "a.service"
			w.unitsReady("True")
		},
	)

	t.Run("a unit that fails later takes nothing back", func(t *testing.T) {
		before := w.generation()
		m.become("failed")
		m.News <- "a.service"
		w.unitsReady("False")
		w.poke()

		n, err := w.get(nodes + "/node-1")
		if err != nil || n.Metadata.Annotations[applied] != sum(osc("one")) ||
			w.generation() != before {
			t.Errorf("the node runs it still, and the Node says %q: %v",
				n.Metadata.Annotations[applied], err)
		}

		m.become("")
		m.News <- "a.service"
		w.unitsReady("True")
	})

	t.Run("how the cluster is reached is read again when units come up later", func(t *testing.T) {
		m.become("activating")
		w.says(osc("two"))
		w.file("etc/a", "two")

		w.await("the status", func() error {
			s, err := w.status()
			if err == nil &&
				(s.Phase != status.Applying || !strings.HasPrefix(s.Generation, "000002")) {
				err = fmt.Errorf("phase %s of generation %s", s.Phase, s.Generation)
			}
			return err
		})

		w.poke()
		before := y.count()
		m.become("")
		m.News <- "a.service"
		w.annotated(osc("two"))

		if y.count() != before+1 {
			t.Errorf("read %d times", y.count()-before)
		}
	})

	t.Run("authorities with a typo are not trusted", func(t *testing.T) {
		y.trust([]byte("a configuration with a typo"))
		before := y.count()
		w.becomes(osc("three"))
		w.poke()

		if y.count() != before+1 {
			t.Errorf("read %d times", y.count()-before)
		}

		w.becomes(osc("four")) // A new document would repair it.
	})

	t.Run("authorities that are not the API server's are left again", func(*testing.T) {
		y.trust(
			pem.EncodeToMemory(&pem.Block{
				Type:  "CERTIFICATE",
				Bytes: w.adminCertificate().Certificate[0],
			}),
		)

		w.says(osc("five"))
		w.await("the end of the connection", func() error {
			if l := w.node.Cluster.Link(); l.Connected {
				return fmt.Errorf("%+v", l)
			}
			return nil
		})

		y.trust(nil)
		w.ahead.Add(int64(31 * time.Second))
		w.becomes(osc("six"))
	})
}
