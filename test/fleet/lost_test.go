package fleet

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loam-os/loam/agent/turns"
)

// one waits until a node of f changes in its turn, and returns it.
func (f *Fleet) one() *member {
	f.Helper()
	var changing *member
	f.Await("a turn", time.Hour, func() error {
		for _, m := range f.members {
			if m.turn().Phase == turns.Holding && f.checker.doing(m.name) != "without a turn" {
				changing = m
				return nil
			}
		}
		return errors.New("nobody has one")
	})
	return changing
}

// six are few nodes, of which one may be away.
func six() Options {
	o := fifty()
	o.Nodes = 6
	o.Policy = `{"maxUnavailable": 1, "chunks": ["100%"]}`
	o.Limits = Limits{Total: 1}
	return o
}

// TestANodeThatChangesItsPoolGivesItsTurn: by a label that its Node gets in its turn, its
// ledger is another one.
func TestANodeThatChangesItsPoolGivesItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(t, six(), Configuration("one"))
		f.Configure(Configuration("two"))
		m := f.one()
		f.Do(http.MethodPatch, nodesPath+"/"+m.name,
			`{"metadata": {"labels": {"worker.gardener.cloud/pool": "edge"}}}`)

		f.Await("the rollout", time.Hour, func() error {
			return errors.Join(f.runs(Configuration("two")), f.settled())
		})
	})
}

// TestAMachineThatIsInstalledAgainTakesItsTurn: it died in its turn, and its Node was
// deleted, which takes the turn away. With its new Node, the turn is there again.
func TestAMachineThatIsInstalledAgainTakesItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(t, six(), Configuration("one"))
		f.Configure(Configuration("two"))
		m := f.one()
		m.busy.lock()
		m.stop()
		time.Sleep(time.Minute) // What it restarts registers its Node.
		f.Do(http.MethodDelete, nodesPath+"/"+m.name, "")
		time.Sleep(5 * time.Minute)

		if err := os.Remove(filepath.Join(m.dir, "var/lib/loam/turn.json")); err != nil {
			t.Fatal(err)
		}
		m.register()
		m.start()
		m.busy.unlock()
		f.Await("the rollout", time.Hour, func() error { return f.runs(Configuration("two")) })
		f.Rollout(Configuration("three"), time.Hour)
	})
}

// TestTheTurnOfANodeThatIsGoneDoesNotStopThePool: it is in the ledger for good, and overdue,
// and a list of the Nodes shows that it does not count.
func TestTheTurnOfANodeThatIsGoneDoesNotStopThePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := fifty()
		o.Nodes = 200
		o.Policy = `{"maxUnavailable": "5%", "chunks": ["100%"]}`
		o.Limits = Limits{Total: o.Nodes / 20}
		f := New(t, o, Configuration("one"))
		f.Configure(Configuration("two"))
		m := f.one()
		m.stop()
		time.Sleep(time.Minute) // What it restarts registers its Node.
		f.Do(http.MethodDelete, nodesPath+"/"+m.name, "")
		f.Options.Nodes--
		f.Await("the rollout", time.Hour, func() error { return f.runs(Configuration("two")) })

		time.Sleep(30 * time.Minute)
		f.Configure(Configuration("three"))
		took := f.Await("the next rollout", 12*time.Minute, func() error {
			return f.runs(Configuration("three"))
		})
		t.Logf("the next rollout: %s", took)
	})
}
