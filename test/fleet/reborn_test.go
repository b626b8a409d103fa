package fleet

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// TestANodeThatIsBackUnseenTakesATurn: a node whose Node is gone may restart at any
// time, but its Node may be back while the API server is out of its reach, with pods.
func TestANodeThatIsBackUnseenTakesATurn(t *testing.T) {
	for _, test := range []struct {
		name string
		// cut is the trouble of its network, at once or once its agent knows that the
		// Node is gone.
		cut   trouble
		knows bool
	}{
		{name: "it knew that its Node was gone", cut: trouble{cut: true}, knows: true},
		{name: "it knew, and hears nothing", cut: trouble{cut: true, silent: true}, knows: true},
		{name: "it hears of the deletion when it is old", cut: trouble{cut: true, silent: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := fifty()
				o.Nodes = 4
				o.Seed = 1
				f := New(t, o, Configuration("one"))
				f.Rollout(Configuration("two"), time.Hour)

				m := f.members[1]
				if !test.knows {
					m.network.set(test.cut)
				}
				f.Do(http.MethodDelete, nodesPath+"/"+m.name, "")
				time.Sleep(5 * time.Second)
				m.network.set(test.cut)
				m.register()
				time.Sleep(2 * rebirth)
				m.arm(next)
				time.Sleep(time.Hour)

				m.network.set(trouble{})
				f.Await("the restart", time.Hour, func() error {
					if !m.runsSystem(next.hash) {
						return errors.New("it runs the system before")
					}
					return f.settled()
				})
				if n := f.checker.state().ledger.Systems; len(n) != 1 {
					t.Errorf("the ledger counts %v, want one rollout of a system", n)
				}
			})
		})
	}
}

// TestANodeThatIsAnotherOneUnseenTakesAnotherTurn: the API server is out of reach once
// the Node is marked. Until the node can change, its Node is another one, without a mark.
func TestANodeThatIsAnotherOneUnseenTakesAnotherTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := fifty()
		o.Nodes = 4
		o.Seed = 1
		f := New(t, o, Configuration("one"))
		f.Rollout(Configuration("two"), time.Hour)

		m := f.members[1]
		isMarked := false
		m.network.catch(&trap{
			matches: func(r *http.Request) bool {
				isMarked = isMarked || kindOf(r) == Patches
				return isMarked && r.Method == http.MethodGet && r.URL.Path == ledgerPath
			},
			do: func() { m.network.set(trouble{cut: true}) },
		})
		f.Configure(Configuration("three"))
		(<-f.happening)()
		id := f.checker.listed()[m.name].mark
		f.Do(http.MethodDelete, nodesPath+"/"+m.name, "")
		m.register()
		time.Sleep(2 * rebirth)

		m.network.set(trouble{watch: 30 * time.Second}) // It sees the ledger before the Node.

		f.Await("the rollout", time.Hour, func() error {
			return errors.Join(f.runs(Configuration("three")), f.settled())
		})
		if other := m.turn().Holder.ID; id == "" || other == id {
			t.Errorf("it was marked for turn %q, and had its last turn %q", id, other)
		}
	})
}

// TestANodeThatIsStillGoneAfterACutComesBack: its agent looks again whether it is gone,
// and restarts the kubelet.
func TestANodeThatIsStillGoneAfterACutComesBack(t *testing.T) {
	for name, cut := range map[string]trouble{
		"refused": {cut: true},
		"silent":  {cut: true, silent: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := fifty()
				o.Nodes = 4
				o.Seed = 1
				f := New(t, o, Configuration("one"))
				f.Rollout(Configuration("two"), time.Hour)

				m := f.members[1]
				f.Do(http.MethodDelete, nodesPath+"/"+m.name, "")
				time.Sleep(5 * time.Second)
				m.network.set(cut)
				time.Sleep(time.Hour)
				m.network.set(trouble{})
				f.Await("the Node", 3*time.Minute, func() error {
					if _, ok := f.checker.listed()[m.name]; !ok {
						return errors.New("it is gone")
					}
					return nil
				})
			})
		})
	}
}

// TestANodeSeesTheRestartThatItsAgentBeforeHasBegun: a kubelet is restarted as its Node is
// gone, and the agent dies before that is done. The next one says what the node runs.
func TestANodeSeesTheRestartThatItsAgentBeforeHasBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := fifty()
		o.Nodes = 4
		f := New(t, o, Configuration("one"))
		m := f.members[1]
		f.Do(http.MethodDelete, nodesPath+"/"+m.name, "")
		f.Await("the restart of the kubelet", time.Minute, func() error {
			if f.checker.doing(m.name) != "disturbed" {
				return errors.New("it has not begun")
			}
			return nil
		})

		synctest.Wait() // Then its agent does not write to its disk.
		m.busy.lock()
		m.kill()
		m.start()
		m.busy.unlock()
		f.Await("all nodes", 10*time.Minute, func() error {
			return errors.Join(f.runs(Configuration("one")), f.settled())
		})
	})
}
