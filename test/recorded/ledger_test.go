package recorded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/turns"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/test/cluster"
)

const ledgerLease = leases + "loam-rollout-pool"

// ledger returns the ledger of the pool, nil if absent.
func (w *fixture) ledger() *turns.Ledger {
	w.Helper()
	l, err := w.readLedger()
	if err != nil {
		w.Fatal(err)
	}
	return l
}

// readLedger is ledger for any goroutine.
func (w *fixture) readLedger() (*turns.Ledger, error) {
	o, err := w.get(ledgerLease)
	var missing *cluster.StatusError
	if errors.As(err, &missing) && missing.Code == http.StatusNotFound {
		return nil, nil
	}
	l, readErr := turns.ReadLedger(o.Metadata.Annotations)
	return &l, errors.Join(err, readErr)
}

// watchLedger returns each state that the ledger has from now on, and ends when the test
// does.
func (w *fixture) watchLedger() <-chan turns.Ledger {
	w.Helper()
	dir, name := path.Split(ledgerLease)
	at := strings.TrimSuffix(dir, "/") + "?watch=1&fieldSelector=metadata.name=" + name
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	states := make(chan turns.Ledger)

	var group sync.WaitGroup
	group.Go(func() {
		defer close(states)
		_ = w.Watch(ctx, at, func(line []byte) {
			var event struct{ Object object }
			err := json.Unmarshal(line, &event)
			l, readErr := turns.ReadLedger(event.Object.Metadata.Annotations)
			if err := errors.Join(err, readErr); err != nil {
				w.Errorf("ledger: %v", err)
			}
			select {
			case states <- l:
			case <-ctx.Done():
			}
		})
	})
	w.Cleanup(func() {
		cancel()
		group.Wait()
	})
	return states
}

// inTurn fails the test unless a node is the only one that has a turn, and is marked. The
// mark of the one before may be there for a moment: it is removed after the turn is given.
func (f *fleet) inTurn(node string) {
	l, err := f.readLedger()
	if err != nil || l == nil || len(l.Holders) != 1 || l.Holders[node].Node != node {
		f.Errorf("%s changes, and the ledger is %+v: %v", node, l, err)
	}
	if marked, err := f.marks(); err != nil || !slices.Contains(marked, node) {
		f.Errorf("%s changes while %v have a mark: %v", node, marked, err)
	}
}

// newPool starts nodes that take turns by policy and run osc("one"). They are
// Ready, and have the certificates of their kubelets. A restart waits for
// obstacle.
func newPool(
	t *testing.T, size int, policy string, obstacle func(ctx context.Context, node string) error,
) *fleet {
	t.Helper()
	return newPoolIn(t, controlPlanes.Borrow(t, cluster.Options{}), size, policy, obstacle)
}

// newPoolIn is newPool in a cluster.
func newPoolIn(
	t testing.TB, c *cluster.Cluster, size int, policy string,
	obstacle func(ctx context.Context, node string) error,
) *fleet {
	t.Helper()
	f := newFleetIn(t, c, size, 0, osc("one"),
		func(ctx context.Context, node, verb, _ string) error {
			if verb != "restart" {
				return nil
			}
			return obstacle(ctx, node)
		})
	for i, node := range f.nodes {
		name := fmt.Sprintf("node-%d", i)
		f.ready(name, true)
		f.writeIn(node.Dir, kubeletCertificate, f.kubelet(name))
	}
	f.policy = policy
	f.admission()
	return f
}

// admission is RestrictAgents.
func (f *fleet) admission() {
	f.Helper()
	if err := f.RestrictAgents(f.Context()); err != nil {
		f.Fatal(err)
	}
}

// ready makes a Node Ready or not.
func (f *fleet) ready(name string, is bool) {
	f.Helper()
	status := "False"
	if is {
		status = "True"
	}
	f.must("PATCH", nodes+"/"+name+"/status",
		fmt.Sprintf(`{"status": {"conditions": [{"type": "Ready", "status": %q}]}}`, status))
}

// marks returns the names of the Nodes with a mark.
func (f *fleet) marks() (marked []string, err error) {
	all, err := f.get(nodes)
	for _, n := range all.Items {
		if n.Metadata.Annotations["loam.dev/turn"] != "" {
			marked = append(marked, n.Metadata.Name)
		}
	}
	return marked, err
}

// settled waits until no node has a turn or a mark, and returns the ledger.
func (f *fleet) settled() turns.Ledger {
	f.Helper()
	var ledger turns.Ledger
	f.await("the end of all turns", func() error {
		l := f.ledger()
		if l == nil {
			return errors.New("no ledger")
		}
		ledger = *l
		marked, err := f.marks()
		if n := len(l.Holders) + len(l.Restored) + len(marked); n > 0 {
			return fmt.Errorf("%d turns and marks", n)
		}
		return err
	})
	return ledger
}

// haveCA waits until all nodes have the value of the Secret that they refer to.
func (f *fleet) haveCA(value string) {
	f.Helper()
	f.await("the new value", func() error {
		for _, node := range f.nodes {
			text, err := os.ReadFile(filepath.Join(node.Dir, "var/lib/loam/os/1.0.0/current/root/etc/ca"))
			if err != nil || string(text) != value {
				return fmt.Errorf("%s: %q, %v", node.Dir, text, err)
			}
		}
		return nil
	})
}

func TestNodesTakeTurnsByTheLedger(t *testing.T) {
	t.Parallel()
	var f *fleet
	f = newPool(t, 3, `{"maxUnavailable": 1}`, func(_ context.Context, node string) error {
		f.inTurn(node)
		return nil
	})

	t.Run("a change that restarts nothing waits for no turn", func(t *testing.T) {
		text := osc("one") + "  - path: /etc/b\n    content: {inline: {data: b}}\n"
		f.says(text)
		f.reached(text, 3)
		if l := f.ledger(); l != nil {
			t.Errorf("ledger %+v", l)
		}
	})

	t.Run("one node restarts at a time", func(t *testing.T) {
		f.says(osc("two"))
		f.reached(osc("two"), 3)
		l := f.settled()
		if l.Done != 3 || l.Failed != 0 || l.State != turns.Running || l.Target != sum(osc("two")) {
			t.Errorf("ledger %+v", l)
		}
		text, err := f.Do("GET", ledgerLease, "")
		if err != nil || strings.Contains(string(text), "managedFields") {
			t.Errorf("the ledger says who wrote what: %v\n%s", err, text)
		}
		f.tellsStart("OSCApplied", "Normal the configuration is applied: generation 000003-")
		for _, reason := range []string{"TurnTaken", "TurnGiven"} {
			if said, err := f.events(reason); len(said) > 0 || err != nil {
				t.Errorf("the same is said twice: %q, %v", said, err)
			}
		}
	})

	t.Run("a new value of a Secret that restarts a unit waits for a turn", func(t *testing.T) {
		text := strings.Replace(osc("two"), "[/etc/a]", "[/etc/a, /etc/ca]", 1) + referring
		f.put("ca", map[string]string{"bundle.crt": "A"})
		f.says(text)
		f.reached(text, 3)
		f.haveCA("A")
		first := f.settled()

		f.put("ca", map[string]string{"bundle.crt": "B"})
		f.haveCA("B")
		second := f.settled()
		if second.Done != 3 || second.Target == first.Target {
			t.Errorf("ledger %+v, before %+v", second, first)
		}
		f.tells("TurnGiven", "Normal the node has given its turn in pool pool for configuration "+
			second.Target[:12]+": it is done")

		f.must("DELETE", secrets+"/ca", "")
		f.await("that the value is missing", func() error {
			for _, node := range f.nodes {
				s, err := statusOf(node.Dir)
				if err != nil || s.Error == nil || !strings.Contains(s.Error.Problem, "bundle.crt of the Secret ca") {
					return fmt.Errorf("%+v, %v", s.Error, err)
				}
			}
			return nil
		})
		f.put("ca", map[string]string{"bundle.crt": "B"})
		f.await("that it is back", func() error {
			for _, node := range f.nodes {
				if s, err := statusOf(node.Dir); err != nil || s.Error != nil {
					return fmt.Errorf("%+v, %v", s.Error, err)
				}
			}
			return nil
		})
		f.haveCA("B")
		if third := f.settled(); third.Target != second.Target || third.Done != 3 {
			t.Errorf("ledger %+v, before %+v", third, second)
		}
	})

	t.Run("one node at a time restarts the services that its annotation names", func(t *testing.T) {
		before := f.settled()
		for i := range f.nodes {
			f.must("PATCH", fmt.Sprintf("%s/node-%d", nodes, i),
				`{"metadata": {"annotations": {"`+restarted+`": "a"}}}`)
		}
		f.await("that all have restarted", func() error {
			all, err := f.get(nodes)
			for _, n := range all.Items {
				if n.Metadata.Annotations[restarted] != "" {
					return fmt.Errorf("%s is still asked to", n.Metadata.Name)
				}
			}
			return err
		})
		f.tells("TurnTaken", "Normal the node has its turn in pool pool for a restart of services")
		f.tells("SystemDUnitRestart", "Normal restarted a.service")
		if l := f.settled(); l.Done != before.Done || l.Target != before.Target {
			t.Errorf("ledger %+v, before %+v", l, before)
		}
	})

	t.Run("a Node that is not Ready counts", func(t *testing.T) {
		f.ready("node-0", false)
		f.says(osc("three"))
		f.await("that two nodes wait", func() error {
			n := 0
			for _, node := range f.nodes {
				if node.Cluster.Link().Waits == "1 of 1 nodes are away" {
					n++
				}
			}
			if n != 2 {
				return fmt.Errorf("%d nodes wait", n)
			}
			return nil
		})
		f.ready("node-0", true)
		f.reached(osc("three"), 3)
		f.settled()
	})

	t.Run("a policy that cannot be read lets nothing begin", func(t *testing.T) {
		f.policy = `{"maxUnavailable": 0}`
		f.says(osc("four"))
		f.await("that all wait", func() error {
			for _, node := range f.nodes {
				waits := node.Cluster.Link().Waits
				if !strings.Contains(waits, "maxUnavailable: is 0: no node could ever change") {
					return fmt.Errorf("%q", waits)
				}
			}
			return nil
		})
		f.tellsStart("RolloutPolicyInvalid", "Warning the policy of the pool is refused: "+
			"annotation rollout.loam.dev/policy:1: maxUnavailable: is 0: no node could ever change; hint: ")

		f.policy = `{"maxUnavailable": 1, "perRack": 1, "rackLabel": "rack"}`
		f.says(osc("four"))
		f.tellsStart("RolloutLabelMissing", "Warning perRack of the policy counts all Nodes without the label rack")
		f.reached(osc("four"), 3)
		if l := f.settled(); l.Done != 3 {
			t.Errorf("ledger %+v", l)
		}
	})
}

// TestACanaryChangesFirst has all nodes of a pool ask at once, in which all may be
// away. Another canary is pinned.
func TestACanaryChangesFirst(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var order []string
	f := newPool(t, 3, `{"maxUnavailable": 3, "chunks": ["100%"]}`,
		func(_ context.Context, node string) error {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, node)
			return nil
		})
	f.must("PATCH", nodes+"/node-1", `{"metadata": {"labels": {"loam.dev/canary": ""}}}`)
	f.must("PATCH", nodes+"/node-2",
		`{"metadata": {"labels": {"loam.dev/canary": "", "loam.dev/pinned": "never"}}}`)

	f.says(osc("two"))
	f.reached(osc("two"), 2)
	f.settled()
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(order, []string{"node-1", "node-0"}) {
		t.Errorf("restarted %v", order)
	}
}

// TestABadChangeStopsAtTheFirstNode checks that only one node is touched, and
// that the correction reaches all.
func TestABadChangeStopsAtTheFirstNode(t *testing.T) {
	t.Parallel()
	var bad atomic.Bool
	var touched sync.Map
	f := newPool(t, 3, `{"maxUnavailable": 2}`, func(_ context.Context, node string) error {
		if _, again := touched.LoadOrStore(node, true); again || !bad.Load() {
			return nil // The revert restarts the unit, too.
		}
		return &unit.JobError{Verb: "restart", Unit: "a.service", Result: "failed"}
	})

	bad.Store(true)
	f.says(osc("bad"))
	f.await("the halt", func() error {
		if l := f.ledger(); l == nil || l.Halted == "" {
			return fmt.Errorf("%+v", l)
		}
		return nil
	})

	l := f.settled()
	n := 0
	touched.Range(func(any, any) bool {
		n++
		return true
	})
	if n != 1 || l.Failed != 1 || l.Done != 0 || !strings.Contains(l.Halted, "a.service") {
		t.Errorf("%d nodes were touched, ledger %+v", n, l)
	}

	f.tellsStart("RolloutHalted", "Warning the rollout of pool pool is halted: node-")
	f.tells("TurnGiven", "Warning the node has given its turn in pool pool for configuration "+
		sum(osc("bad"))[:12]+": it has failed")

	bad.Store(false)
	f.says(osc("good"))
	f.reached(osc("good"), 3)
	if l := f.settled(); l.Halted != "" || l.Done != 3 || l.Failed != 0 {
		t.Errorf("ledger %+v", l)
	}
}

// TestAChangeIsTriedOnceMore has a change fail once, for a reason that goes away. A
// person retries it, and ends the halt.
func TestAChangeIsTriedOnceMore(t *testing.T) {
	t.Parallel()
	var f *fleet
	var bad atomic.Bool
	var touched sync.Map
	f = newPool(t, 2, `{"maxUnavailable": 1}`, func(_ context.Context, node string) error {
		if _, again := touched.LoadOrStore(node, true); again || !bad.Load() {
			return nil // The revert restarts the unit, too.
		}
		return &unit.JobError{Verb: "restart", Unit: "a.service", Result: "failed"}
	})

	bad.Store(true)
	f.says(osc("two"))
	f.await("the halt", func() error {
		if l := f.ledger(); l == nil || l.Halted == "" {
			return fmt.Errorf("%+v", l)
		}
		return nil
	})
	f.settled()
	bad.Store(false)

	failed := ""
	touched.Range(func(node, _ any) bool {
		failed = node.(string)
		return true
	})
	annotations := func() map[string]string {
		o, err := f.get(nodes + "/" + failed)
		if err != nil {
			t.Fatal(err)
		}
		return o.Metadata.Annotations
	}
	if annotations()["loam.dev/failed"] == "" {
		t.Errorf("the Node has %v", annotations())
	}

	retry := func(target string) {
		f.must("PATCH", nodes+"/"+failed,
			`{"metadata": {"annotations": {"loam.dev/retry": "`+target+`"}}}`)
	}
	retry("0123456789abcdef")
	f.tellsStart("RolloutRetry", "Warning 0123456789ab is not tried once more: it is not the configuration")
	retry(sum(osc("two")))
	f.tells("RolloutRetry", "Normal configuration "+sum(osc("two"))[:12]+" is tried once more")
	f.await("that the Node has forgotten", func() error {
		a := annotations()
		if a["loam.dev/failed"]+a["loam.dev/retry"] != "" {
			return fmt.Errorf("annotations %v", a)
		}
		return nil
	})

	lease, err := f.get(ledgerLease)
	if err != nil {
		t.Fatal(err)
	}
	annotated := map[string]any{}
	for key := range lease.Metadata.Annotations {
		annotated[key] = nil // A merge patch keeps the others.
	}
	for key, value := range turns.Retried(*f.ledger(), sum(osc("two")), 0).Annotations(nil) {
		annotated[key] = value
	}
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotated}})
	if err != nil {
		t.Fatal(err)
	}
	f.must("PATCH", ledgerLease, string(text))
	f.reached(osc("two"), 2)
	if l := f.settled(); l.Done != 2 || l.Failed != 0 || l.Halted != "" {
		t.Errorf("ledger %+v", l)
	}
}

// TestADeletedLedgerIsMadeAgain deletes it while a node has a turn.
func TestADeletedLedgerIsMadeAgain(t *testing.T) {
	t.Parallel()
	var restarts atomic.Bool
	release := make(chan struct{})
	f := newPool(t, 2, `{"maxUnavailable": 1}`, func(ctx context.Context, _ string) error {
		restarts.Store(true)
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})

	// A node that has not yet begun to change would take another turn.
	f.says(osc("two"))
	f.await("the change of a node", func() error {
		if !restarts.Load() {
			return errors.New("no node restarts anything")
		}
		return nil
	})
	before, err := f.marks()
	if err != nil || len(before) != 1 {
		t.Fatalf("turns of %v: %v", before, err)
	}

	f.must("DELETE", ledgerLease, "")
	f.await("the ledger", func() error {
		l := f.ledger()
		if l == nil || l.State != turns.Running || len(l.Restored) != 1 {
			return fmt.Errorf("%+v", l)
		}
		return nil
	})
	if after, err := f.marks(); err != nil || !slices.Equal(before, after) {
		t.Errorf("turns of %v, and before of %v: %v", after, before, err)
	}

	close(release)
	f.reached(osc("two"), 2)
	if l := f.settled(); l.Done != 2 {
		t.Errorf("ledger %+v", l)
	}
}

// TestATurnOutlivesTheAgent stops it while it waits, and while a unit restarts.
func TestATurnOutlivesTheAgent(t *testing.T) {
	t.Parallel()
	w := newFixture(t, cluster.Options{Controllers: true})
	w.policy = `{"maxUnavailable": 1}`
	w.join(osc("one"))
	w.must("PATCH", nodes+"/node-1/status",
		`{"status": {"conditions": [{"type": "Ready", "status": "True"}]}}`)

	w.must("PATCH", nodes+"/node-1", `{"metadata": {"labels": {"loam.dev/pinned": "db"}}}`)
	w.says(osc("two"))
	w.waitsFor("the Node is pinned: db")
	w.stop()
	h := &held{w.systemd, make(chan struct{}, 16), make(chan struct{})}
	w.adjust = func(n *Node) {
		n.asks(h)
	}
	w.startAgain()
	w.waitsFor("the Node is pinned: db")
	w.must("PATCH", nodes+"/node-1", `{"metadata": {"labels": {"loam.dev/pinned": null}}}`)
	w.must("PATCH", ledgerLease, `{"metadata": {"labels": {"a": "b"}}}`)
	<-h.begun
	if l := w.ledger(); l == nil || len(l.Holders) != 1 {
		t.Fatalf("ledger %+v", l)
	}
	w.ahead.Add(int64(11 * time.Minute))
	w.nodeSeen()
	w.tells("TurnOverdue", "Warning the node has its turn in pool pool for configuration "+
		sum(osc("two"))[:12]+" for more than 10m0s: it counts as failed")

	w.stop()
	w.adjust = nil
	w.startAgain()
	w.annotated(osc("two"))
	w.await("the end of the turn", func() error {
		if l := w.ledger(); len(l.Holders) != 0 || l.Done != 1 {
			return fmt.Errorf("%+v", l)
		}
		return nil
	})
	w.carries("loam.dev/turn", "")
	if l, err := w.get(ledgerLease); err != nil || l.Metadata.Labels["a"] != "b" {
		t.Errorf("labels of others: %v %v", l.Metadata.Labels, err)
	}
}

// TestATurnCostsFewRequests counts those of some changes on a node that waits for
// no other.
func TestATurnCostsFewRequests(t *testing.T) {
	t.Parallel()
	f := newPool(t, 1, `{"maxUnavailable": 1}`,
		func(context.Context, string) error { return nil })
	f.says(osc("first"))
	f.reached(osc("first"), 1)
	f.settled()

	before := f.tally()
	const changes = 5
	for i := range changes {
		next := osc(fmt.Sprint("change-", i))
		f.says(next)
		f.reached(next, 1)
		f.settled()
	}
	cost := f.tally().since(before)

	// Three of each read the ledger, and some are Events. What comes besides is
	// the last Event of the change before, and a renewal of the node's Lease.
	const each, besides = 12, 3
	if n := cost.rest + cost.renewals; n > changes*each+besides {
		t.Errorf("%v requests (%+v) for %d changes, want at most %d each and %d besides",
			n, cost, changes, each, besides)
	}
}

// TestAPoolChangesInChunks looks at each state of the ledger of a larger pool: it
// never has more turns than the policy allows, and one before the first node is
// done.
func TestAPoolChangesInChunks(t *testing.T) {
	t.Parallel()
	const size, away = 16, 4
	f := newPool(t, size, `{"maxUnavailable": "25%"}`,
		func(context.Context, string) error { return nil })
	states := f.watchLedger()
	f.says(osc("two"))

	done := 0
	for done < size {
		l, ok := <-states
		if !ok {
			t.Fatalf("no more states of the ledger after %d nodes", done)
		}
		turns := len(l.Holders) + len(l.Restored)
		if turns > away || l.Failed > 0 || l.Done < done {
			t.Fatalf("%d turns, ledger %+v", turns, l)
		}
		if l.Done == 0 && turns > 1 {
			t.Fatalf("%d nodes have a turn before the first is done", turns)
		}
		done = l.Done
	}
	f.reached(osc("two"), size)
	f.settled()
}
