package recorded

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/test/cluster"
	"github.com/loam-os/loam/test/files"
)

// TestANewNodeTakesNoTurn: Gardener's authorizer refuses all Leases while there
// is no Node, and the kubelet that makes it is in the configuration.
func TestANewNodeTakesNoTurn(t *testing.T) {
	t.Parallel()
	w := newFixture(t, cluster.Options{Controllers: true})
	front := &refusal{}
	w.interpose().answers = front.answer
	end := front.begin(403, "Forbidden", func(r *http.Request) bool {
		return isKnown(r) && strings.HasPrefix(r.URL.Path, "/apis/coordination.k8s.io/")
	})

	w.serial = true
	w.says(osc("one"))
	w.start(files.Dir(w.TB), w.BootstrapToken(t))
	w.approve()
	w.file("etc/a", "one")
	front.mu.Lock()

	if n := len(front.at); n > 0 {
		t.Errorf("%d requests for Leases before there is a Node", n)
	}

	front.mu.Unlock()
	end()
	w.addNode()
	w.annotated(osc("one"))
	w.becomes(osc("two"))
	w.givenOn()
}

func TestADelayDoesNotCountForNodesThatTakeTurns(t *testing.T) {
	t.Parallel()
	w := newFixture(t, cluster.Options{Controllers: true})
	w.serial = true
	w.delay = "1h"
	w.join(osc("one"))
	w.becomes(osc("two"))
}

func TestATurnIsRenewedUntilTheNodeIsDone(t *testing.T) {
	t.Parallel()
	w := newFixture(t, cluster.Options{Controllers: true})
	w.serial = true
	w.join(osc("one"))
	w.stop()
	h := &held{w.systemd, make(chan struct{}, 16), make(chan struct{})}
	w.adjust = func(n *Node) {
		n.asks(h)
	}
	w.startAgain()
	w.says(osc("two"))
	<-h.begun

	for range 2 {
		before := w.renewedAt()
		w.ahead.Add(int64(10 * time.Minute))
		w.nodeSeen()
		w.await("a renewal", func() error {
			if at := w.renewedAt(); !at.After(before.Add(10*time.Minute - time.Second)) {
				return fmt.Errorf("renewed at %s", at)
			}
			return nil
		})
	}

	close(h.free)
	w.annotated(osc("two"))
	w.givenOn()

	t.Run("and not if it does not do what it has its turn for", func(t *testing.T) {
		w.says(osc("three") + "  - path: etc/b\n    content: {inline: {data: x}}\n")
		w.conditioned("False", "OSCInvalid")
		before := w.renewedAt()
		w.ahead.Add(int64(time.Minute))
		w.nodeSeen()
		w.poke()

		if at := w.renewedAt(); !at.Equal(before) {
			t.Errorf("renewed at %s, and before at %s", at, before)
		}

		w.becomes(osc("four")) // It still has its turn.
		w.givenOn()
	})
}

// renewedAt is when the turn was renewed last.
func (w *fixture) renewedAt() time.Time {
	w.Helper()
	l, err := w.get(leases + secretName)
	if err != nil || l.Spec.HolderIdentity != "host-1" {
		w.Fatalf("the turn of %q: %v", l.Spec.HolderIdentity, err)
	}
	return l.Spec.RenewTime
}

// TestPoliciesLetNodesTakeTurns has the admission policies judge the agents of a serial
// rollout, and what they report on their Nodes.
func TestPoliciesLetNodesTakeTurns(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3, 0, osc("one"))
	f.admission()
	for i := range f.nodes {
		f.must("PATCH", fmt.Sprintf("%s/node-%d", nodes, i), `{"metadata": {"labels":
			{"worker.gardener.cloud/kubernetes-version": null, "node-role.kubernetes.io/worker": null}}}`)
	}

	f.serial = true
	for _, text := range []string{osc("two"), osc("three")} {
		f.says(text)
		f.reached(text, len(f.nodes))
		f.givenOn()
	}
	for i := range f.nodes {
		f.await("the labels", func() error {
			o, err := f.get(fmt.Sprintf("%s/node-%d", nodes, i))
			if _, has := o.Metadata.Labels["node-role.kubernetes.io/worker"]; err == nil && !has {
				err = fmt.Errorf("labels %v", o.Metadata.Labels)
			}
			return err
		})
	}
}

// TestANodeThatIsBornAgain has all that the one before had.
func TestANodeThatIsBornAgain(t *testing.T) {
	t.Parallel()
	w := joinedFixture(t, osc("one"))
	w.conditioned("True", "AllUnitsHealthy")

	for range 2 {
		w.must("DELETE", nodes+"/node-1", "")
		w.addNode()
		uid := w.must("GET", nodes+"/node-1", "")["metadata"].(map[string]any)["uid"].(string)
		w.annotated(osc("one"))
		w.labelled("worker.gardener.cloud/kubernetes-version", "1.36.3")
		w.labelled("topology.kubernetes.io/zone", "zone-1")
		w.conditioned("True", "AllUnitsHealthy")

		w.await("the Lease", func() error {
			text, err := w.Do("GET", nodeLease, "")
			if err == nil && !strings.Contains(string(text), uid) {
				err = fmt.Errorf("it is not of Node %s: %s", uid, text)
			}
			return err
		})
	}

	w.becomes(osc("two"))
}

// TestADeniedRequestSaysWhatToDo: Gardener's approver denies a machine that has
// a Node what it asks for by a bootstrap token.
func TestADeniedRequestSaysWhatToDo(t *testing.T) {
	t.Parallel()
	w := newFixture(t, cluster.Options{})
	w.start(files.Dir(w.TB), w.BootstrapToken(t))
	var name string
	w.await("the request", func() error {
		all, err := w.get(signings)
		for _, r := range all.Items {
			name = r.Metadata.Name
		}
		if name == "" && err == nil {
			err = fmt.Errorf("%d requests", len(all.Items))
		}
		return err
	})

	w.must("PATCH", signings+"/"+name+"/approval",
		`{"status": {"conditions": [{"type": "Denied", "status": "True", "reason": "RequestDenied"}]}}`)
	w.await("the status", func() error {
		link := w.node.Cluster.Link()
		if link.Code != "approval-denied" ||
			!strings.Contains(link.Hint, "delete the Node object first") {
			return fmt.Errorf("%s: %s; hint: %s", link.Code, link.Problem, link.Hint)
		}
		return nil
	})
}
