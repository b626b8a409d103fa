package recorded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/loam-os/loam/test/cluster"
)

const (
	replicas = "/apis/apps/v1/namespaces/default/replicasets"
	budgets  = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
)

// disturbing is osc(text) with other CNI files, which may stop pods.
func disturbing(text string) string {
	return osc(text) + "  - path: /etc/cni/net.d/10.conf\n    content: {inline: {data: " +
		text + "}}\n"
}

// drainedNode is a Node with as much of it as a drain changes.
type drainedNode struct {
	Metadata struct{ Annotations map[string]string }
	Spec     struct{ Unschedulable bool }
	Status   struct{ Conditions []condition }
}

// drainOf returns how far the drain of the Node is.
func (w *fixture) drainOf() (n drainedNode, conditions []string, err error) {
	text, err := w.Do(http.MethodGet, nodes+"/node-1", "")
	if err == nil {
		err = json.Unmarshal(text, &n)
	}
	for _, c := range n.Status.Conditions {
		if c.Reason == "LoamDrain" && c.Status == "True" {
			conditions = append(conditions, c.Type)
		}
	}
	return n, conditions, err
}

// released waits until nothing of a drain is left on the Node, and the turn is
// given.
func (w *fixture) released(cordoned bool) {
	w.Helper()
	w.await("the end of the drain", func() error {
		n, conditions, err := w.drainOf()
		if err != nil || n.Spec.Unschedulable != cordoned || len(conditions) > 0 ||
			n.Metadata.Annotations["loam.dev/drain"] != "" {
			return fmt.Errorf("%+v %v %w", n, conditions, err)
		}
		if l := w.ledger(); l == nil || len(l.Holders) > 0 {
			return fmt.Errorf("ledger %+v", l)
		}
		return nil
	})
}

// playKubelet ends the pods of the Node that are evicted, as its kubelet would.
func (w *fixture) playKubelet() {
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() {
		_ = w.Watch(ctx, pods+"?watch=1", func(line []byte) {
			var event struct{ Object object }
			if json.Unmarshal(line, &event) != nil || event.Object.Metadata.DeletionTimestamp == "" {
				return
			}
			_, _ = w.Do(http.MethodDelete, pods+"/"+event.Object.Metadata.Name,
				`{"gracePeriodSeconds": 0}`)
		})
	})
	w.Cleanup(func() {
		cancel()
		group.Wait()
	})
}

// runPods makes the Node Ready, and has the pods of the ReplicaSet run on it.
// There is no scheduler.
func (w *fixture) runPods() {
	w.Helper()
	w.must(http.MethodPatch, nodes+"/node-1/status", `{"status": {"conditions": [
		{"type": "Ready", "status": "True", "lastHeartbeatTime": "`+
		time.Now().UTC().Format(time.RFC3339)+`"}]}}`)

	w.await("the pods", func() error {
		text, err := w.Do(http.MethodGet, pods, "")
		var list struct {
			Items []struct {
				Metadata struct{ Name, DeletionTimestamp string }
				Spec     struct{ NodeName string }
			}
		}
		if err == nil {
			err = json.Unmarshal(text, &list)
		}
		if err == nil && len(list.Items) != 2 {
			err = fmt.Errorf("%d pods", len(list.Items))
		}
		if err != nil {
			return err
		}

		for _, p := range list.Items {
			if p.Metadata.DeletionTimestamp != "" {
				return errors.New("a pod that ends")
			}
			if p.Spec.NodeName != "" {
				continue
			}
			w.must(http.MethodPost, pods+"/"+p.Metadata.Name+"/binding", `{"metadata": {"name": "`+
				p.Metadata.Name+`"}, "target": {"kind": "Node", "name": "node-1"}}`)
			w.must(http.MethodPatch, pods+"/"+p.Metadata.Name+"/status",
				`{"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}`)
		}
		return nil
	})
}

// TestANodeDrainsItself has a real API server and real controllers judge how a
// node evicts its pods, with the rights of its kubelet.
func TestANodeDrainsItself(t *testing.T) {
	t.Parallel()
	w := newFixtureIn(t, cluster.Start(t, cluster.Options{Controllers: true}))
	w.policy = `{"maxUnavailable": 1}`
	w.join(disturbing("one"))
	w.write(kubeletCertificate, w.kubelet("node-1"))
	w.playKubelet()
	w.must(http.MethodPost, replicas, `{"metadata": {"name": "web"}, "spec": {
		"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {
			"metadata": {"labels": {"app": "web"}},
			"spec": {"containers": [{"name": "c", "image": "i"}]}}}}`)

	w.runPods()
	t.Run("and stays cordoned if an operator had cordoned it", func(*testing.T) {
		w.must(http.MethodPatch, nodes+"/node-1", `{"spec": {"unschedulable": true}}`)
		w.becomes(disturbing("two"))
		w.released(true)
		w.must(http.MethodPatch, nodes+"/node-1", `{"spec": {"unschedulable": null}}`)
	})

	w.runPods()
	w.must(http.MethodPost, budgets, `{"metadata": {"name": "web"}, "spec": {
		"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}}`)
	t.Run("and postpones the change for a budget", func(t *testing.T) {
		w.policy = `{"maxUnavailable": 1, "drain": {"timeout": "2s"}}`
		w.says(disturbing("three"))
		w.waitsFor("postponed: 2 pods left after 2s: default/web-")
		w.released(false)
		w.still("etc/a", "two")
		if l := w.ledger(); l.Postponed != 1 || l.Done != 0 || l.Failed != 0 {
			t.Errorf("ledger %+v", l)
		}

		w.await("the Event", func() error {
			said, err := w.events("DrainPostponed")
			const want = "Warning the change is postponed: PodDisruptionBudget default/web: 2 pods " +
				"left after 2s: default/web-"
			if err == nil && (len(said) != 1 || !strings.HasPrefix(said[0], want) ||
				!strings.Contains(said[0], "The disruption budget web needs 2 healthy pods")) {
				err = fmt.Errorf("%q", said)
			}
			return err
		})
		if drained, postponed := w.node.Cluster.Drains(); drained != 1 || postponed != 1 {
			t.Errorf("%d drains, %d postponed", drained, postponed)
		}
	})

	t.Run("and goes on after the agent was killed, in the drain and in the change", func(t *testing.T) {
		w.policy = `{"maxUnavailable": 1}`
		w.says(disturbing("three"))
		w.ahead.Add(int64(10 * time.Minute))
		w.nodeSeen()
		begun := func() error {
			n, conditions, err := w.drainOf()
			if err != nil || !n.Spec.Unschedulable ||
				!slices.Equal(conditions, []string{"MaintenancePlanned", "DrainInProgress"}) {
				return fmt.Errorf("%+v %v %w", n, conditions, err)
			}
			return nil
		}
		w.await("the drain", begun)
		w.waitsFor("drain of the Node")

		w.stop()
		if err := begun(); err != nil {
			t.Error(err)
		}
		h := &held{w.systemd, make(chan struct{}, 16), make(chan struct{})}
		w.adjust = func(n *Node) {
			n.asks(h)
		}
		w.startAgain()
		w.runPods() // Their Node stays Ready.
		w.waitsFor("drain of the Node")

		w.must(http.MethodDelete, budgets+"/web", "")
		<-h.begun
		n, conditions, err := w.drainOf()
		if err != nil || !n.Spec.Unschedulable ||
			!slices.Equal(conditions, []string{"Drained", "MaintenanceInProgress"}) {
			t.Errorf("while it changes: %+v %v %v", n, conditions, err)
		}

		w.stop() // As by a power cut in the change.
		w.adjust = nil
		w.startAgain()
		w.annotated(disturbing("three"))
		w.released(false)
		if l := w.ledger(); l.Done != 1 {
			t.Errorf("ledger %+v", l)
		}
		w.await("the Event", func() error {
			said, err := w.events("NodeDrained")
			if err == nil && len(said) < 2 {
				err = fmt.Errorf("%q", said) // The agent may look again once it is back.
			}
			return err
		})
	})

	t.Run("and does not begin if the rollout was paused meanwhile", func(t *testing.T) {
		w.runPods()
		w.must(http.MethodPost, budgets, `{"metadata": {"name": "web"}, "spec": {
			"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}}`)
		w.says(disturbing("four"))
		w.waitsFor("drain of the Node")
		w.state("paused")
		w.must(http.MethodDelete, budgets+"/web", "")
		w.waitsFor("the rollout is paused")
		w.released(false)
		w.still("etc/a", "three")
		if l := w.ledger(); l.Done != 0 || l.Failed != 0 {
			t.Errorf("ledger %+v", l)
		}

		w.state("running")
		w.ahead.Add(int64(time.Minute)) // A pause is looked at each half minute.
		w.nodeSeen()
		w.runPods()
		w.annotated(disturbing("four"))
		w.released(false)
	})
}

// state makes that the state of the ledger, as a person does.
func (w *fixture) state(state string) {
	w.Helper()
	w.must(http.MethodPatch, ledgerLease,
		`{"metadata": {"annotations": {"rollout.loam.dev/state": "`+state+`"}}}`)
}

// TestADrainThatCannotBeginIsPostponed: the node has no certificate of a kubelet that
// could cordon its Node. It gives its turn back, for the others.
func TestADrainThatCannotBeginIsPostponed(t *testing.T) {
	t.Parallel()
	f := newPool(t, 2, `{"maxUnavailable": 1, "chunks": ["100%"], "drain": {"timeout": "2s"}}`,
		func(context.Context, string) error { return nil })
	if err := os.Remove(filepath.Join(f.nodes[0].Dir, kubeletCertificate)); err != nil {
		t.Fatal(err)
	}
	f.says(disturbing("two"))
	f.reached(disturbing("two"), 1)
	f.await("the end of the turn", func() error {
		l, err := f.readLedger()
		if err != nil {
			return err
		}
		if l == nil || l.Postponed == 0 || l.Done != 1 || len(l.Holders) > 0 {
			return fmt.Errorf("%+v", l)
		}
		return nil
	})
	f.tellsStart("DrainPostponed", "Warning the change is postponed: drain the Node: ")
}
