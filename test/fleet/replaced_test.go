package fleet

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestABadConfigurationThatReplacesAnotherTouchesOneNode: nodes that have their turn
// for a good configuration do not use it for a bad one.
func TestABadConfigurationThatReplacesAnotherTouchesOneNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const canary = "node-0"
		var mu sync.Mutex
		var tried []string
		o := fifty()
		o.Canary = func(node string) bool { return node == canary }
		o.Fails = func(node, text string) bool {
			if text != "bad" {
				return false
			}
			mu.Lock()
			defer mu.Unlock()
			tried = append(tried, node)
			return true
		}
		f := New(t, o, Configuration("one"))
		f.Configure(Configuration("two"))
		f.Await("several turns", time.Hour, func() error {
			if len(f.checker.state().ledger.Holders) < o.Limits.Total {
				return errors.New("few nodes have their turn")
			}
			return nil
		})

		f.Configure(Configuration("bad"))
		f.Await("the halt", time.Hour, func() error {
			if f.checker.state().ledger.Halted == "" {
				return errors.New("it goes on")
			}
			return f.settled()
		})
		time.Sleep(time.Hour) // Of the bubble. No node may begin in it.
		if len(tried) != 1 || tried[0] != canary {
			t.Errorf("%v have tried it, want %s only; ledger: %s", tried, canary,
				f.checker.state().ledger.Summary())
		}

		f.Rollout(Configuration("three"), time.Hour)
	})
}
