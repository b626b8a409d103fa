package recorded

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/test/cluster"
)

func TestNodesTakeTurns(t *testing.T) {
	t.Parallel()
	w := newFixture(t, cluster.Options{Controllers: true})
	w.serial = true
	w.put("ca", map[string]string{"bundle.crt": "A"})
	w.join(osc("one") + referring)
	done := w.anothersTurn()
	w.says(osc("two") + referring)
	w.overtake()
	w.still("etc/a", "one")
	done()
	w.annotated(osc("two") + referring)
	w.givenOn()
}

// anothersTurn has another node have its turn, until done.
func (w *fixture) anothersTurn() (done func()) {
	w.Helper()
	w.must("POST", strings.TrimSuffix(leases, "/"), fmt.Sprintf(
		`{"metadata": {"name": %q}, "spec": {"holderIdentity": "another", "leaseDurationSeconds": 600, "renewTime": %q}}`,
		secretName, time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")))
	return func() {
		w.Helper()
		w.must("PATCH", leases+secretName,
			`{"spec": {"holderIdentity": null, "renewTime": null, "leaseDurationSeconds": null}}`)
	}
}

// givenOn waits until no node has the turn.
func (w *fixture) givenOn() {
	w.Helper()
	w.await("the turn is given on", func() error {
		l, err := w.get(leases + secretName)
		if err == nil && l.Spec.HolderIdentity != "" {
			err = fmt.Errorf("it is the turn of %s", l.Spec.HolderIdentity)
		}
		return err
	})
}

func TestAChangeWaitsForItsDelay(t *testing.T) {
	t.Parallel()
	w := newFixture(t, cluster.Options{Controllers: true})
	w.delay = "1h"
	w.put("ca", map[string]string{"bundle.crt": "A"})
	w.join(osc("one") + referring)
	w.waitsAnHour("one", "two")
}

// waitsAnHour sends a document and checks that it is applied after an hour of
// the node's clock, not before.
func (w *fixture) waitsAnHour(before, text string) {
	w.Helper()
	w.says(osc(text) + referring)

	for _, more := range []time.Duration{0, 59 * time.Minute} {
		w.ahead.Add(int64(more))
		w.poke()
		w.overtake()
		w.still("etc/a", before)
	}

	w.ahead.Add(int64(time.Minute))
	w.poke()
	w.annotated(osc(text) + referring)
}
