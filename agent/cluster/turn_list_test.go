package cluster

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/loam-os/loam/agent/turns"
	"github.com/loam-os/loam/test/apiserver"
)

// TestAListOfTheNodesLasts has a node list the Nodes, and another one write the ledger
// before it: with which list it decides then.
func TestAListOfTheNodesLasts(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(w *world)
		want bool
	}{
		{"nothing else has changed", func(*world) {}, true},
		{"it is old", func(w *world) { w.uptime += listLasts(0) + time.Second }, false},
		{"the policy has changed", func(w *world) {
			p := *w.pending.policy
			w.pending.policy = &p
		}, false},
		{"the Node is of another pool", func(w *world) {
			w.node.Labels = map[string]string{poolLabel: "other"}
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, w := newLister(t)
			c.conflict(t, &w)

			w.node = w.node.DeepCopy()
			tt.edit(&w)
			c.step(t, &w, turns.Step{Kind: turns.Read})
			if c.seen.Listed != tt.want {
				t.Errorf("it has a list: %t, want %t", c.seen.Listed, tt.want)
			}
			if len(c.seen.Fleet) != 1 && tt.want {
				t.Errorf("%d Nodes, want 1", len(c.seen.Fleet))
			}

			c.step(t, &w, turns.Step{Kind: turns.Read})
			if c.seen.Listed {
				t.Error("it has a list without a write before")
			}
		})
	}
}

// TestAListOfALargePoolLastsLonger checks for how long a list of the Nodes is used.
func TestAListOfALargePoolLastsLonger(t *testing.T) {
	for size, want := range map[int]time.Duration{
		0:      15 * time.Second,
		250:    15 * time.Second,
		1000:   20 * time.Second,
		5000:   time.Minute,
		100000: time.Minute,
	} {
		if got := listLasts(size); got != want {
			t.Errorf("a list of %d Nodes lasts %s, want %s", size, got, want)
		}
	}
}

// TestTheLedgerOfALargePoolIsReadAfterTheList has another node write while a node lists
// the Nodes: which ledger it decides with.
func TestTheLedgerOfALargePoolIsReadAfterTheList(t *testing.T) {
	for size, isLater := range map[int]bool{manyNodes: false, manyNodes + 1: true} {
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			c, w := newLister(t)
			c.step(t, &w, turns.Step{Kind: turns.Read})
			l := *c.seen.Ledger
			l.Size = size
			c.step(t, &w, turns.Step{Kind: turns.Write, Ledger: l})
			before := c.lease.ResourceVersion

			c.step(t, &w, turns.Step{Kind: turns.Read})
			c.step(t, &w, turns.Step{Kind: turns.List})
			c.overtake(t, l)
			if c.seen == nil {
				c.step(t, &w, turns.Step{Kind: turns.Read})
			}
			if !c.seen.Listed || len(c.seen.Fleet) != 1 {
				t.Errorf("it has a list: %t, of %d Nodes, want 1", c.seen.Listed, len(c.seen.Fleet))
			}
			if got := c.lease.ResourceVersion != before; got != isLater {
				t.Errorf("it has the ledger of the other node: %t, want %t", got, isLater)
			}
		})
	}
}

// TestATurnCountsThoughItsNodeIsNotSelected has other nodes with a turn, whose Nodes a
// person has labelled otherwise since, or deleted: which the list has.
func TestATurnCountsThoughItsNodeIsNotSelected(t *testing.T) {
	const racks = "example.com/rack"
	for _, tt := range []struct {
		name           string
		selector       string
		holders, nodes []string
		want           []string
	}{
		{"it is there", "a=b", []string{"node-8"}, []string{"node-8"}, []string{"node-8"}},
		{"it is gone", "a=b", []string{"node-8", "a,metadata.name=node-9"}, []string{"node-9"}, nil},
		{"it is the own Node", "a=b", []string{"node-1"}, nil, nil},
		{"it is one of many that are gone", "a=b",
			[]string{"selected", "node-8", "1", "2", "3", "4", "5", "6", "7", "8"},
			[]string{"selected", "node-8", "node-9"}, []string{"selected", "node-8"}},
		{"all are selected", "", []string{"node-8"}, []string{"node-8"}, []string{"node-1", "node-8"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, w := newLister(t)
			for _, name := range tt.nodes {
				node := &core.Node{ObjectMeta: meta.ObjectMeta{
					Name:   name,
					Labels: map[string]string{racks: "r"},
				}}
				if name == "selected" {
					node.Labels["a"] = "b"
				}
				if err := c.api.core.Post().Resource("nodes").Body(node).Do(t.Context()).Error(); err != nil {
					t.Fatal(err)
				}
			}
			w.pending.policy.Nodes = tt.selector
			w.pending.policy.RackLabel = racks
			w.pending.policy.PerRack = turns.Amount{Number: 1}
			c.step(t, &w, turns.Step{Kind: turns.Read})
			l := *c.seen.Ledger
			for _, name := range tt.holders {
				l.Holders[name] = turns.Holder{ID: name, Machine: name, Node: name, Zone: "z"}
			}
			c.seen.Ledger = &l

			if err := c.list(t.Context(), w, turns.Me{Node: "node-1"}, false); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, n := range c.seen.Fleet {
				got = append(got, n.Name)
				if tt.selector != "" && n.Name != "selected" && (n.Zone != "z" || n.Rack != "r" || !n.Pinned) {
					t.Errorf("%+v is not where it is, or is of the pool", n)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("the list has %q, want %q", got, tt.want)
			}
		})
	}
}

// TestARestoredLedgerHasTheTurnsOfNodesThatAreNotSelected restores a ledger that was
// deleted, where a person has labelled Nodes otherwise in their turn or after a failure.
func TestARestoredLedgerHasTheTurnsOfNodesThatAreNotSelected(t *testing.T) {
	c, w := newLister(t)
	for name, ledger := range map[string]string{
		"node-7": ledgerName(w),
		"node-8": ledgerPrefix + "other",
		"node-9": "",
	} {
		mark := turns.Holder{ID: name, Machine: name, Node: name, Zone: "z", Ledger: ledger}
		node := &core.Node{ObjectMeta: meta.ObjectMeta{
			Name:        name,
			Annotations: map[string]string{turnAnnotation: mark.String()},
		}}
		if err := c.api.core.Post().Resource("nodes").Body(node).Do(t.Context()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	for name, pool := range map[string]string{"node-4": "pool", "node-5": "other", "node-6": ""} {
		failure := turns.Failure{Pool: pool, Target: "target-" + name, Revision: 1, Why: "no"}
		node := &core.Node{ObjectMeta: meta.ObjectMeta{
			Name:        name,
			Annotations: map[string]string{failedAnnotation: failure.String()},
		}}
		if err := c.api.core.Post().Resource("nodes").Body(node).Do(t.Context()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	w.pending.policy.Nodes = "a=b"
	l := turns.New()
	c.seen = &turns.Seen{Ledger: &l}

	me := turns.Me{Node: "node-1", Pool: "pool"}
	if err := c.list(t.Context(), w, me, false); err != nil {
		t.Fatal(err)
	}
	restored := l.Restore(turns.Policy{}, me, c.seen.Fleet)
	want := map[string]turns.Holder{
		"node-7": {ID: "node-7", Machine: "node-7", Node: "node-7", Zone: "z"},
	}
	if diff := cmp.Diff(want, restored.Restored); diff != "" || restored.Size != 0 {
		t.Errorf("a pool of %d, with the turns (-want +got):\n%s", restored.Size, diff)
	}
	if restored.Target != "target-node-4" || restored.Halted != "node-4: no" || len(restored.Halts) > 0 {
		t.Errorf("it is halted for %q: %q, and %q", restored.Target, restored.Halted, restored.Halts)
	}
}

// TestALedgerIsAbsentSince checks for how long a node has seen that its pool has no
// ledger: it does not create one at once.
func TestALedgerIsAbsentSince(t *testing.T) {
	c, w := newLister(t)
	if err := c.api.lease(ledgerName(w), c.api.coordination.Delete()).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	w.uptime = time.Hour
	for _, passed := range []time.Duration{0, 2 * time.Second, time.Second} {
		w.uptime += passed
		c.step(t, &w, turns.Step{Kind: turns.Read})
		if got, want := c.view(w, change{}).Me.Unchanged, w.uptime-time.Hour; got != want {
			t.Errorf("the ledger is absent for %s, want %s", got, want)
		}
	}

	c.step(t, &w, turns.Step{Kind: turns.Create})
	c.step(t, &w, turns.Step{Kind: turns.Read})
	w.uptime += time.Minute
	if got := c.view(w, change{}).Me.Unchanged; got != time.Minute {
		t.Errorf("the ledger is there for %s, want 1m", got)
	}
}

// TestNodesThatWriteAtOnceWaitLonger checks that the pause after a write that another
// node preceded doubles, and is short again after one that succeeds. It begins when the
// write is refused.
func TestNodesThatWriteAtOnceWaitLonger(t *testing.T) {
	c, w := newLister(t)
	refused := w.now.Add(3 * time.Second)
	c.env.Now = func() time.Time { return refused }
	for _, want := range []time.Duration{
		conflictPause,
		2 * conflictPause,
		4 * conflictPause,
		8 * conflictPause,
		8 * conflictPause,
	} {
		c.conflict(t, &w)
		if got := c.until.Sub(refused); got != want {
			t.Errorf("it waits for %s, want %s", got, want)
		}
		c.step(t, &w, turns.Step{Kind: turns.Read})
	}

	c.step(t, &w, turns.Step{Kind: turns.Write, Ledger: *c.seen.Ledger})
	c.step(t, &w, turns.Step{Kind: turns.Read})
	c.seen.Listed = true // Otherwise it lists the Nodes anew.
	c.conflict(t, &w)
	if got := c.until.Sub(refused); got != conflictPause {
		t.Errorf("after a write that succeeded, it waits for %s, want %s", got, conflictPause)
	}
}

// TestNodesAskSeldomWhereAnswersTakeLong checks that the pause after a write that another
// node preceded grows with the time since the ledger was read.
func TestNodesAskSeldomWhereAnswersTakeLong(t *testing.T) {
	for _, tt := range []struct{ took, want time.Duration }{
		{10 * time.Millisecond, conflictPause},
		{time.Second, 8 * time.Second},
		{time.Minute, maxConflictPause},
	} {
		t.Run(tt.took.String(), func(t *testing.T) {
			c, w := newLister(t)
			c.step(t, &w, turns.Step{Kind: turns.Read})
			c.env.Uptime = func() time.Duration { return tt.took }
			c.conflict(t, &w)
			if got := c.until.Sub(c.env.Now()); got != tt.want {
				t.Errorf("it waits for %s, want %s", got, tt.want)
			}
		})
	}
}

// lister is a node that takes a turn, at an API server with its Node and the ledger.
type lister struct{ *turnController }

func newLister(t *testing.T) (lister, world) {
	part := func() float64 { return 0.5 }
	c := &turnController{
		api: newTestAPI(t, apiserver.New()),
		env: Env{
			Part:   part,
			Log:    zap.NewNop(),
			Now:    func() time.Time { return noon },
			Uptime: func() time.Duration { return 0 },
		},
	}
	w := withPolicy(newWorld())

	node := &core.Node{ObjectMeta: meta.ObjectMeta{Name: "node-1"}}
	if err := c.api.core.Post().Resource("nodes").Body(node).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	l := turns.New()
	l.State = turns.Running
	lease, err := c.api.createLedger(t.Context(), nil, ledgerName(w), noon)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.api.writeLedger(t.Context(), lease, l, noon); err != nil {
		t.Fatal(err)
	}
	return lister{c}, w
}

func (l lister) step(t *testing.T, w *world, s turns.Step) {
	t.Helper()
	l.until = time.Time{}
	if err := l.do(t.Context(), w, turns.View{}, s); err != nil {
		t.Fatal(err)
	}
}

// conflict reads the ledger and lists the Nodes, if that is not done yet, and writes
// after another node.
func (l lister) conflict(t *testing.T, w *world) {
	t.Helper()
	if l.seen == nil {
		l.step(t, w, turns.Step{Kind: turns.Read})
	}
	if !l.seen.Listed {
		l.step(t, w, turns.Step{Kind: turns.List})
	}
	l.overtake(t, *l.seen.Ledger)
	l.step(t, w, turns.Step{Kind: turns.Write, Ledger: *l.seen.Ledger})
	if l.seen != nil || l.until.IsZero() {
		t.Fatal("the write has succeeded")
	}
}

// overtake has another node write the ledger.
func (l lister) overtake(t *testing.T, ledger turns.Ledger) {
	t.Helper()
	later := l.lease.Spec.RenewTime.Add(time.Second) // Another time is another version.
	written, err := l.api.writeLedger(t.Context(), l.lease, ledger, later)
	if err != nil || written == nil {
		t.Fatalf("the other node has not written: %v", err)
	}
}
