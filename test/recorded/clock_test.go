package recorded

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/test/cluster"
)

// TestAClockThatStartsIn1970AndIsSet: a machine without a battery, until it
// hears the time. TLS has the real clock: without it no server is trusted.
func TestAClockThatStartsIn1970AndIsSet(t *testing.T) {
	t.Parallel()
	w := newFixture(t, cluster.Options{Controllers: true})
	w.delay = "1h"
	w.adjust = func(n *Node) { n.change(func(c *apply.Config) { c.Now = w.now }) }
	w.put("ca", map[string]string{"bundle.crt": "A"})
	w.startOfTime()

	t.Run("without a certificate", func(t *testing.T) {
		w.join(osc("one") + referring)
		w.livesOnAndHearsTheTime("one", "two", "three")
	})

	w.stop()
	w.startOfTime()
	w.systemd.Calls()

	t.Run("with a stored certificate", func(t *testing.T) {
		before := w.generation()
		w.startAgain()

		w.await("the Node", func() error {
			if link := w.node.Cluster.Link(); link.Node == "" {
				return errors.New(link.Problem)
			}
			return nil
		})

		w.poke()
		w.still("etc/a", "three")

		if calls := w.systemd.Calls(); len(calls) > 0 || w.generation() != before {
			t.Errorf("jobs %v, generations %d and %d", calls, before, w.generation())
		}

		w.livesOnAndHearsTheTime("three", "four", "five")
	})

	if n := w.asked(); n != 1 {
		t.Errorf("%d certificates asked for", n)
	}

	t.Run("the certificate is renewed all the same", func(t *testing.T) {
		renewed := w.renews()
		w.ahead.Store(int64(27 * 24 * time.Hour))
		w.poke()
		renewed()
	})
}

// startOfTime sets the node's clock to the epoch.
func (w *fixture) startOfTime() { w.ahead.Store(-time.Now().UnixNano()) }

// livesOnAndHearsTheTime changes the node twice, and sets its clock in between.
func (w *fixture) livesOnAndHearsTheTime(first, second, third string) {
	w.Helper()
	w.renewsItsLease()
	w.waitsAnHour(first, second)

	if year := w.now().UTC().Year(); year != 1970 {
		w.Fatalf("the node's clock says %d", year)
	}

	w.overtake()
	w.systemd.Calls()
	before := w.generation()

	w.ahead.Store(0)
	w.poke()
	w.renewsItsLease()
	w.still("etc/a", second)

	if calls := w.systemd.Calls(); len(calls) > 0 || w.generation() != before {
		w.Errorf("when the clock was set: jobs %v, generations %d and %d",
			calls, before, w.generation())
	}

	w.waitsAnHour(second, third)
}

// renewsItsLease has the node's Lease renewed, by its clock.
func (w *fixture) renewsItsLease() {
	w.Helper()
	w.poke()                       // The session is not in the middle of a renewal.
	const later = 61 * time.Second // It is renewed every minute.
	since := w.now().Add(later)
	w.ahead.Add(int64(later))
	w.poke()

	w.await("the Lease", func() error {
		l, err := w.get(nodeLease)
		at := l.Spec.RenewTime
		if err == nil && (at.Before(since.Truncate(time.Microsecond)) || at.After(w.now())) {
			err = fmt.Errorf("renewed at %s", at)
		}
		return err
	})
}

// TestAClockThatIsSetBack was five days ahead until the node had joined.
func TestAClockThatIsSetBack(t *testing.T) {
	t.Parallel()
	w := newFixture(t, cluster.Options{Controllers: true})
	w.delay = "1h"
	w.put("ca", map[string]string{"bundle.crt": "A"})
	w.ahead.Store(int64(5 * 24 * time.Hour))
	w.join(osc("one") + referring)
	w.renewsItsLease()
	w.says(osc("two") + referring)
	w.overtake()
	w.still("etc/a", "one")
	w.ahead.Store(0)
	w.poke()

	t.Run("a change that waited", func(t *testing.T) {
		w.ahead.Store(int64(time.Hour + time.Minute))
		w.poke()
		w.overtake()
		w.still("etc/a", "two")
	})

	t.Run("the Lease", func(t *testing.T) {
		w.renewsItsLease()
	})
}
