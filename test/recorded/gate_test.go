package recorded

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/test/cluster"
)

// TestTurnsAndDelaysOutliveTheAgentAndItsSessions is one node through it all.
func TestTurnsAndDelaysOutliveTheAgentAndItsSessions(t *testing.T) {
	t.Parallel()
	w := newFixture(t, cluster.Options{Controllers: true})
	front := &refusal{}
	w.interpose().answers = front.answer
	w.serial = true
	w.put("ca", map[string]string{"bundle.crt": "A"})
	w.join(osc("one") + referring)

	t.Run("the turn of another is awaited after a restart", func(*testing.T) {
		done := w.anothersTurn()
		w.says(osc("two") + referring)
		w.overtake()
		w.still("etc/a", "one")
		w.stop()
		w.startAgain()
		w.waitsFor("turn of another")
		w.poke()
		w.still("etc/a", "one")
		done()
		w.annotated(osc("two") + referring)
		w.givenOn()
	})

	t.Run("a checksum that was not updated does not hide a text", func(t *testing.T) {
		w.must("PATCH", secrets+"/"+secretName,
			`{"metadata": {"annotations": {"checksum/data-script": "fixed"}}}`)
		w.carries(applied, "fixed")

		text, err := json.Marshal(
			map[string]any{"stringData": map[string]string{"osc.yaml": osc("three") + referring}},
		)
		if err != nil {
			t.Fatal(err)
		}

		w.must("PATCH", secrets+"/"+secretName, string(text))
		w.file("etc/a", "three")
		w.givenOn()
	})

	t.Run("a turn that was taken before a restart is given on after it", func(t *testing.T) {
		w.stop()
		h := &held{w.systemd, make(chan struct{}, 16), make(chan struct{})}
		w.adjust = func(n *Node) {
			n.asks(h)
		}
		w.startAgain()
		w.overtake()
		w.says(osc("four") + referring)
		<-h.begun

		if l, err := w.get(leases + secretName); err != nil || l.Spec.HolderIdentity != "host-1" {
			t.Fatalf("the turn of %q: %v", l.Spec.HolderIdentity, err)
		}

		w.stop()
		w.adjust = nil
		w.startAgain()
		w.annotated(osc("four") + referring)
		w.givenOn()
	})

	t.Run("a delay is kept by a session that has not seen the Node yet", func(*testing.T) {
		w.serial = false
		w.becomes(osc("five") + referring)
		w.annotate(delayed, "1h")
		w.nodeSeen()
		w.says(osc("six") + referring)
		w.overtake()
		front.once(401, "Unauthorized")
		w.leaseDue()
		w.came(front, 0)
		seen := front.begin(hangs, "", func(r *http.Request) bool {
			return r.Method == "GET" && strings.HasPrefix(r.URL.Path, nodes)
		})

		w.came(front, 0)
		for range 2 {
			w.poke()
			w.overtake()
		}

		w.still("etc/a", "five")
		seen()
		w.nodeSeen()
		w.overtake()
		w.still("etc/a", "five")
		w.ahead.Add(int64(time.Hour))
		w.poke()
		w.annotated(osc("six") + referring)
	})
}

// nodeSeen waits until the session has seen the Node as it is now: it puts back
// a label that the Node has lost.
func (w *fixture) nodeSeen() {
	w.Helper()
	const role = "node-role.kubernetes.io/worker"
	w.must("PATCH", nodes+"/node-1", `{"metadata": {"labels": {"`+role+`": null}}}`)
	w.nodeIs("labelled", func(n object) bool { _, ok := n.Metadata.Labels[role]; return ok })
}
