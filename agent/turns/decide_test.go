package turns

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/window"
)

// fleet are ten Nodes, five in each of two zones and two in each rack. The
// second has the mark of a turn.
func fleet() Fleet {
	var f Fleet
	for i := range 10 {
		f = append(f, Node{
			Name: fmt.Sprintf("node-%d", i+1),
			Zone: string(rune('a' + i/5)),
			Rack: fmt.Sprintf("rack-%d", i/2),
		})
	}
	f[1].Mark = holder("node-2", "2").String()
	return f
}

// hurried edits as edit, and lets all nodes be away for that long.
func hurried(
	left time.Duration, edit func(p *Policy, l *Ledger),
) func(p *Policy, l *Ledger, me *Me, f Fleet) {
	return func(p *Policy, l *Ledger, _ *Me, _ Fleet) {
		l.Hurry = &Hurry{Max: Amount{Percent: 100}, Until: noon.Add(left)}
		edit(p, l)
	}
}

func TestDecide(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(p *Policy, l *Ledger, me *Me, f Fleet)
		want Verdict
		why  string
	}{
		{"room for one more", func(*Policy, *Ledger, *Me, Fleet) {}, Take, ""},
		{"a restart, whatever the rollout waits for", func(_ *Policy, l *Ledger, me *Me, f Fleet) {
			me.Target = ""
			l.Halted = "node-3: no"
			l.Done = 0
			f[5].Canary = true
		}, Take, ""},
		{"a restart of one too many", func(p *Policy, _ *Ledger, me *Me, _ Fleet) {
			me.Target = ""
			p.MaxUnavailable.Number = 2
		}, Wait, "2 of 2 nodes are away"},
		{"a restart while the pool is paused", func(_ *Policy, l *Ledger, me *Me, _ Fleet) {
			me.Target = ""
			*l = l.Pause("lunch")
		}, Stop, "the rollout is paused: lunch"},
		{"as many away as may be", func(p *Policy, _ *Ledger, _ *Me, _ Fleet) {
			p.MaxUnavailable.Number = 2
		}, Wait, "2 of 2 nodes are away"},
		{"the hard limit", func(p *Policy, _ *Ledger, _ *Me, _ Fleet) {
			p.HardMax.Number = 2
		}, Wait, "2 of 2 nodes are away"},
		{"another is not Ready", func(_ *Policy, _ *Ledger, _ *Me, f Fleet) {
			f[8].Away = true
		}, Wait, "3 of 3 nodes are away"},
		{"a holder that is not Ready counts once", func(_ *Policy, _ *Ledger, _ *Me, f Fleet) {
			f[0].Away = true
		}, Take, ""},
		{"only this one is not Ready", func(_ *Policy, _ *Ledger, _ *Me, f Fleet) {
			f[9].Away = true
		}, Take, ""},
		{"a holder whose Node is gone", func(p *Policy, _ *Ledger, _ *Me, f Fleet) {
			p.MaxUnavailable.Number = 2
			f[0].Name = "node-11"
		}, Take, ""},
		{"one that was restored and has no mark", func(p *Policy, _ *Ledger, _ *Me, f Fleet) {
			p.MaxUnavailable.Number = 2
			f[1].Mark = ""
		}, Take, ""},
		{"its zone is full", func(p *Policy, _ *Ledger, me *Me, _ Fleet) {
			p.PerZone = Amount{Number: 2}
			me.Zone = "a"
		}, Wait, "2 of 2 nodes of zone a are away"},
		{"a share of its zone", func(p *Policy, _ *Ledger, me *Me, _ Fleet) {
			p.PerZone = Amount{Percent: 40}
			me.Zone = "a"
		}, Wait, "2 of 2 nodes of zone a are away"},
		{"another zone is full", func(p *Policy, _ *Ledger, _ *Me, _ Fleet) {
			p.PerZone = Amount{Number: 2}
		}, Take, ""},
		{"zones are not known where none is limited", func(p *Policy, _ *Ledger, me *Me, f Fleet) {
			me.Zone = "a"
			for i := range f {
				f[i].Zone = ""
			}
		}, Take, ""},
		{"its rack is full, also if the turn there does not say so", func(p *Policy, l *Ledger, _ *Me, _ Fleet) {
			l.Holders = map[string]Holder{"node-9": holder("node-9", "1")}
			p.PerRack = Amount{Number: 1}
		}, Wait, "1 of 1 nodes of rack rack-4 are away"},
		{"a control plane, and another one is not Ready", func(_ *Policy, l *Ledger, me *Me, f Fleet) {
			l.Holders = nil
			me.ControlPlane = true
			f[9].ControlPlane = true
			f[8].ControlPlane = true
			f[8].Away = true
		}, Wait, "1 of 1 control planes are away"},
		{"a control plane, and another one has its turn", func(_ *Policy, _ *Ledger, me *Me, f Fleet) {
			me.ControlPlane = true
			f[9].ControlPlane = true
			f[0].ControlPlane = true
		}, Wait, "1 of 1 control planes are away"},
		{"a control plane, and workers are away", func(_ *Policy, _ *Ledger, me *Me, f Fleet) {
			me.ControlPlane = true
			f[9].ControlPlane = true
			f[8].ControlPlane = true
		}, Take, ""},
		{"a control plane that is not Ready itself", func(_ *Policy, _ *Ledger, me *Me, f Fleet) {
			me.ControlPlane = true
			f[9].ControlPlane = true
			f[9].Away = true
		}, Take, ""},
		{"a worker, and a control plane is away", func(_ *Policy, _ *Ledger, _ *Me, f Fleet) {
			f[0].ControlPlane = true
		}, Take, ""},
		{"a control plane, and the Node of another one is gone", func(
			_ *Policy, _ *Ledger, me *Me, f Fleet,
		) {
			me.ControlPlane = true
			f[9].ControlPlane = true
			f[0] = Node{Name: "node-11", ControlPlane: true}
		}, Take, ""},
		{"the chunk has begun", func(_ *Policy, l *Ledger, _ *Me, _ Fleet) {
			l.Done = 0
		}, Wait, "the first 1 nodes are not done"},
		{"paused", func(_ *Policy, l *Ledger, _ *Me, _ Fleet) {
			*l = l.Pause("lunch")
		}, Stop, "the rollout is paused: lunch"},
		{"halted", func(_ *Policy, l *Ledger, _ *Me, _ Fleet) {
			l.Halted = "node-3: it fails"
		}, Stop, "the rollout is halted: node-3: it fails"},
		{"halted before another target", func(_ *Policy, l *Ledger, me *Me, _ Fleet) {
			l.Halted = "node-3: it fails"
			l.Failed = 1
			me.Target = "newer"
			me.Revision = 8
		}, Take, ""},
		{"halted, and it changes to a system", func(_ *Policy, l *Ledger, me *Me, _ Fleet) {
			l.Halted = "node-3: it fails"
			l.Failed = 1
			l.Holders = nil
			me.Target = "5678"
			me.Version = "3.0.0"
		}, Take, ""},
		{"a system while another one is halted", func(_ *Policy, _ *Ledger, me *Me, _ Fleet) {
			me.Target = "1234"
			me.Version = "2.0.0"
		}, Stop, "the rollout is halted: node-9: it fell back"},
		{"a system while as many change as may be away",
			func(p *Policy, _ *Ledger, me *Me, _ Fleet) {
				p.MaxUnavailable.Number = 2
				me.Target = "5678"
				me.Version = "3.0.0"
			}, Wait, "2 of 2 nodes are away"},
		{"an older target", func(_ *Policy, _ *Ledger, me *Me, _ Fleet) {
			me.Target = "old"
			me.Revision = 6
		}, Wait, "the pool has a newer configuration"},
		{"restoring", func(_ *Policy, l *Ledger, _ *Me, _ Fleet) {
			l.State = Restoring
		}, Wait, "the ledger is being restored"},
		{"pinned", func(_ *Policy, _ *Ledger, me *Me, _ Fleet) {
			me.Pinned = "db"
		}, Stop, "the Node is pinned: db"},
		{"a holder is overdue", func(_ *Policy, l *Ledger, _ *Me, _ Fleet) {
			h := l.Holders["node-1"]
			h.Since = noon.Add(-11 * time.Minute)
			l.Holders["node-1"] = h
		}, Stop, "0 nodes have failed, and 1 have their turn for too long: node-1"},
		{"one overdue is tolerated", func(p *Policy, l *Ledger, _ *Me, _ Fleet) {
			h := l.Holders["node-1"]
			h.Since = noon.Add(-11 * time.Minute)
			l.Holders["node-1"] = h
			p.MaxFailures = 1
		}, Take, ""},
		{"outside of its windows", func(p *Policy, _ *Ledger, _ *Me, _ Fleet) {
			w, _ := window.Parse("22:00-04:00")
			p.Windows = []window.Window{w}
		}, Wait, "the maintenance window opens 2026-03-01T22:00:00Z"},
		{"a system that all have had, and the first of this time is not done", func(
			p *Policy, l *Ledger, me *Me, f Fleet,
		) {
			p.MaxUnavailable = Amount{Number: 5}
			p.Chunks = []Amount{{Number: 1}, {Percent: 100}}
			me.Target = "5678"
			me.Version = "3.0.0"
			l.Systems["5678"] = Rollout{Version: "3.0.0", Done: len(f)}
			h := l.Holders["node-1"]
			h.Target = me.Target
			l.Holders["node-1"] = h
		}, Wait, "the first 1 nodes are not done"},
		{"a canary has not had its turn", func(_ *Policy, _ *Ledger, _ *Me, f Fleet) {
			f[4].Canary = true
		}, Wait, "canary node-5 comes first"},
		{"a canary has its turn", func(_ *Policy, _ *Ledger, _ *Me, f Fleet) {
			f[0].Canary = true
			f[0].Away = true
			f[0].Tried = Tried{}.With("new")
		}, Wait, "canary node-1 comes first"},
		{"a canary has given its turn", func(_ *Policy, _ *Ledger, _ *Me, f Fleet) {
			f[4].Canary = true
			f[4].Tried = Tried{}.With("old").With("new")
		}, Take, ""},
		{"a canary has given its turn for another target", func(_ *Policy, _ *Ledger, _ *Me, f Fleet) {
			f[4].Canary = true
			f[4].Tried = Tried{}.With("old")
		}, Wait, "canary node-5 comes first"},
		{"a canary is off", func(_ *Policy, l *Ledger, _ *Me, f Fleet) {
			f[4].Canary = true
			f[4].Away = true
			l.Holders = nil
		}, Take, ""},
		{"a canary is pinned", func(_ *Policy, _ *Ledger, _ *Me, f Fleet) {
			f[4].Canary = true
			f[4].Pinned = true
		}, Take, ""},
		{"a system, and a canary keeps its own", func(_ *Policy, l *Ledger, me *Me, f Fleet) {
			f[4].Canary = true
			f[4].Held = true
			l.Holders = nil
			me.Target = "5678"
			me.Version = "3.0.0"
		}, Take, ""},
		{"a configuration, and a canary keeps its system", func(_ *Policy, _ *Ledger, _ *Me, f Fleet) {
			f[4].Canary = true
			f[4].Held = true
		}, Wait, "canary node-5 comes first"},
		{"a canary died in its turn, which is tolerated", func(p *Policy, l *Ledger, _ *Me, f Fleet) {
			h := l.Holders["node-1"]
			h.Since = noon.Add(-11 * time.Minute)
			l.Holders["node-1"] = h
			f[0].Canary = true
			p.MaxFailures = 1
		}, Take, ""},
		{"another canary has not had its turn", func(_ *Policy, _ *Ledger, me *Me, f Fleet) {
			f[4].Canary = true
			f[9].Canary = true
			me.Canary = true
		}, Take, ""},
		{"a system, and a canary runs a newer one", func(_ *Policy, l *Ledger, me *Me, f Fleet) {
			f[4].Canary = true
			f[4].Tried.Version = "3.1.0-rc.1"
			l.Holders = nil
			me.Target = "5678"
			me.Version = "3.0.0"
		}, Take, ""},
		{"a system, and a canary runs one with a fourth number", func(
			_ *Policy, l *Ledger, me *Me, f Fleet,
		) {
			f[4].Canary = true
			f[4].Tried.Version = "3.0.0.1"
			l.Holders = nil
			me.Target = "5678"
			me.Version = "3.0.0"
		}, Take, ""},
		{"a system, and a canary runs an older one", func(_ *Policy, l *Ledger, me *Me, f Fleet) {
			f[4].Canary = true
			f[4].Tried.Version = "2.0.0"
			l.Holders = nil
			me.Target = "5678"
			me.Version = "3.0.0"
		}, Wait, "canary node-5 comes first"},
		{"a share of the nodes that are not pinned", func(p *Policy, _ *Ledger, _ *Me, f Fleet) {
			p.MaxUnavailable = Amount{Percent: 30}
			for i := 2; i < 6; i++ {
				f[i].Pinned = true
			}
		}, Wait, "2 of 1 nodes are away"},
		{"a share of its zone, without pinned nodes", func(p *Policy, _ *Ledger, me *Me, f Fleet) {
			p.PerZone = Amount{Percent: 60}
			me.Zone = "a"
			f[2].Pinned = true
			f[3].Pinned = true
		}, Wait, "2 of 1 nodes of zone a are away"},
		{"a chunk of the nodes that are not pinned", func(p *Policy, l *Ledger, _ *Me, f Fleet) {
			p.Chunks = []Amount{{Percent: 50}, {Percent: 100}}
			l.Done = 1
			for i := 2; i < 6; i++ {
				f[i].Pinned = true
			}
		}, Wait, "the first 3 nodes are not done"},
		{"it was postponed, and others still ask", func(_ *Policy, _ *Ledger, me *Me, _ Fleet) {
			me.Postponed = true
			me.Unchanged = time.Minute
		}, Wait, "postponed: the other nodes come first"},
		{"it was postponed, and no other asks", func(_ *Policy, _ *Ledger, me *Me, _ Fleet) {
			me.Postponed = true
		}, Take, ""},
		{"it was postponed, and all others are done", func(_ *Policy, l *Ledger, me *Me, _ Fleet) {
			me.Postponed = true
			me.Unchanged = 0
			l.Done = 9
			l.Holders = nil
			l.Restored = nil
		}, Take, ""},
		{"a person is in a hurry", hurried(time.Hour, func(p *Policy, l *Ledger) {
			w, _ := window.Parse("22:00-04:00")
			p.Windows = []window.Window{w}
			p.MaxUnavailable.Number = 1
			l.Done = 0
		}), Take, ""},
		{"a person was in a hurry", hurried(-time.Hour, func(p *Policy, _ *Ledger) {
			p.MaxUnavailable.Number = 2
		}), Wait, "2 of 2 nodes are away"},
		{"the hard limit of a hurry", hurried(time.Hour, func(p *Policy, _ *Ledger) {
			p.HardMax.Number = 2
		}), Wait, "2 of 2 nodes are away"},
		{"control planes in a hurry", func(_ *Policy, l *Ledger, me *Me, f Fleet) {
			l.Hurry = &Hurry{Max: Amount{Percent: 100}, Until: noon.Add(time.Hour)}
			me.ControlPlane = true
			f[0].ControlPlane = true
		}, Wait, "1 of 1 control planes are away"},
		{"a halt in a hurry", hurried(time.Hour, func(_ *Policy, l *Ledger) {
			l.Halted = "node-3: it fails"
		}), Stop, "the rollout is halted: node-3: it fails"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := Policy{
				MaxUnavailable: Amount{Number: 3},
				HardMax:        Amount{Number: 10},
				Chunks:         []Amount{{Number: 1}, {Percent: 100}},
				Overdue:        defaultOverdue(),
			}
			l := running()
			me := Me{
				Machine:   "node-10",
				Node:      "node-10",
				Zone:      "b",
				Rack:      "rack-4",
				Target:    "new",
				Revision:  7,
				Class:     Kubelet,
				Unchanged: time.Hour,
			}
			f := fleet()
			tt.edit(&p, &l, &me, f)

			got := Decide(p, l, me, f, noon)
			if got.Verdict != tt.want || got.Why != tt.why {
				t.Errorf("%s %q, want %s %q", got.Verdict, got.Why, tt.want, tt.why)
			}
			if (got.Stopped != "") != (got.Verdict == Stop) ||
				(got.Stopped != "" && !slices.Contains(StopReasons(), got.Stopped)) {
				t.Errorf("stopped because it is %q", got.Stopped)
			}
			if got.Verdict != Take && !got.Until.After(noon) {
				t.Errorf("until %s", got.Until)
			}
		})
	}
}

// TestFewNodesAskAtOnce counts the nodes of a large pool that would write the
// ledger while turns are free, and those that look at it again within seconds. A turn
// that is not taken is free for all in the end.
func TestFewNodesAskAtOnce(t *testing.T) {
	const (
		size = 500
		done = 100 // They would not ask, but are counted.
	)
	l := New()
	l.State = Running
	l.Target = "new"
	l.Done = done
	f := make(Fleet, size)
	for i := range f {
		f[i].Name = fmt.Sprint(i)
	}

	for _, tt := range []struct {
		name               string
		free               int
		unchanged          time.Duration
		leastAsk, mostAsk  int
		leastSoon, mostSum int
	}{
		{"one turn is free", 1, 0, 1, 3 * few, 0, 3 * few},
		{"a hundred turns are free", 100, 0, 1, 3 * few, 50, 150},
		{"nobody has taken one for a while", 1, 10 * patience, size - done, size - done, 0, size},
	} {
		t.Run(tt.name, func(t *testing.T) {
			limit := Amount{Number: tt.free}
			p := Policy{MaxUnavailable: limit, HardMax: limit, Chunks: []Amount{{Percent: 100}}}

			ask, soon := -done, 0
			for i := range size {
				d := Decide(p, l, Me{
					Machine:   fmt.Sprint(i),
					Target:    "new",
					Class:     Kubelet,
					Unchanged: tt.unchanged,
				}, f, noon)
				rest := d.Until.Sub(noon)
				switch {
				case d.Verdict == Take:
					ask++
				case rest > longestRest:
					t.Fatalf("node %d waits %s", i, rest)
				case rest < time.Duration(tt.free)*writing:
					soon++
				}
			}

			if ask < tt.leastAsk || ask > tt.mostAsk {
				t.Errorf("%d nodes ask at once, want %d to %d", ask, tt.leastAsk, tt.mostAsk)
			}
			if soon < tt.leastSoon || ask+soon > tt.mostSum {
				t.Errorf("%d nodes look again soon, want %d, and %d with those that ask",
					soon, tt.leastSoon, tt.mostSum)
			}
		})
	}
}

func TestCanariesAreFirst(t *testing.T) {
	me := Me{Pool: "a", Machine: "node-1", Target: "new"}
	if position(me) == 0 || position(me) == position(Me{Pool: "a", Machine: "node-1"}) {
		t.Errorf("position %f", position(me))
	}
	me.Canary = true
	if got := position(me); got != 0 {
		t.Errorf("position %f", got)
	}
}

// TestANodeThatIsBehindLeavesTheServerAlone has a node that does not get the newer
// configuration: it asks as rarely as one that waits for its turn.
func TestANodeThatIsBehindLeavesTheServerAlone(t *testing.T) {
	l := running()
	l.Size = 5000
	me := Me{Machine: "node-9", Target: "old", Revision: 6, Class: Kubelet}
	d := Decide(Policy{}, l, me, fleet(), noon)
	if d.Why != "the pool has a newer configuration" || d.Until.Sub(noon) != poll[Kubelet] {
		t.Errorf("%+v", d)
	}
}

// TestAPersonMayLetNodesBeginBeforeTheWindow checks when a node looks again while no
// window is open: not only when one opens, as a person may hurry before.
func TestAPersonMayLetNodesBeginBeforeTheWindow(t *testing.T) {
	w, err := window.Parse("22:00-04:00")
	if err != nil {
		t.Fatal(err)
	}
	opens := time.Date(2026, 3, 1, 22, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		now, want time.Time
		isOpening bool
	}{
		{noon, noon.Add(longestRest / 2), false},
		{opens.Add(-longestRest - 1), opens.Add(-longestRest/2 - 1), false},
		{opens.Add(-longestRest), opens, true},
		{opens.Add(-time.Minute), opens, true},
	} {
		d := mayBegin(Policy{Windows: []window.Window{w}}, running(), Me{Target: "new", Revision: 7}, tt.now)
		if !d.Until.Equal(tt.want) || d.Opens != tt.isOpening {
			t.Errorf("at %s, it looks at %s (opening: %t), want %s", tt.now, d.Until, d.Opens, tt.want)
		}
	}
}
