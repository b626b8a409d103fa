package fleet

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loam-os/loam/agent/cluster"
	"github.com/loam-os/loam/agent/turns"
)

func TestMain(m *testing.M) {
	cluster.Silence()
	m.Run()
}

// fifty is a fleet whose policy limits all, zones and racks.
func fifty() Options {
	return Options{
		Nodes:   50,
		Zones:   3,
		Racks:   4,
		Policy:  `{"maxUnavailable": 6, "perZone": 3, "perRack": 1, "rackLabel": "` + rackLabel + `"}`,
		Limits:  Limits{Total: 6, Zone: 3, Rack: 1},
		Restart: 15 * time.Second,
		Reboot:  100 * time.Second,
	}
}

func TestAFleetTakesTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(t, fifty(), Configuration("one"))
		f.counts.take()

		took := f.Rollout(Configuration("two"), time.Hour)
		s := f.checker.state()
		if s.ledger.Done != 50 || s.touched != 50 || s.most < 2 {
			t.Errorf("%d touched, %d at once, ledger: %s", s.touched, s.most, s.ledger.Summary())
		}
		number, _ := f.counts.take()
		t.Logf("configuration: %s, at most %d at once, requests %v", took, s.most, number)

		f.checker.forget()
		const hash = "2b2b"
		took = f.Upgrade("2.0.0", hash, 3*time.Hour)
		s = f.checker.state()
		if r := s.ledger.Systems[turns.SystemTarget(hash)]; r.Done != 50 || s.touched != 50 {
			t.Errorf("%d touched, ledger: %s", s.touched, s.ledger.Summary())
		}
		number, _ = f.counts.take()
		t.Logf("system: %s, at most %d at once, requests %v", took, s.most, number)
	})
}

func TestABadConfigurationTouchesOneNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := fifty()
		o.Fails = func(_, text string) bool { return text == "bad" }
		f := New(t, o, Configuration("one"))
		f.Configure(Configuration("bad"))
		f.Await("the halt", time.Hour, func() error {
			if s := f.checker.state(); s.ledger.Halted == "" {
				return errors.New("it goes on")
			}
			return f.settled()
		})
		time.Sleep(time.Hour) // Of the bubble. No node may begin in it.
		s := f.checker.state()
		if s.touched != 1 || s.ledger.Failed != 1 || !strings.Contains(s.ledger.Halted, "kubelet.service") {
			t.Errorf("%d touched, ledger: %s", s.touched, s.ledger.Summary())
		}
	})
}
