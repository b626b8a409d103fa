package recorded

import (
	"fmt"
	"strings"
	"time"
)

// Annotations of Gardener's contract.
const (
	delayed   = "node-agent.gardener.cloud/reconciliation-delay"
	inTurn    = "reconciliation.osc.node-agent.gardener.cloud/serial"
	applied   = "checksum/cloud-config-data"
	restarted = "worker.gardener.cloud/restart-systemd-services"
)

func (w *fixture) addNode() {
	w.Helper()
	annotations := ""
	if w.delay != "" {
		annotations = fmt.Sprintf(`, "annotations": {%q: %q}`, delayed, w.delay)
	}
	w.must("POST", nodes,
		`{"metadata": {"name": "node-1", "labels": {"kubernetes.io/hostname": "host-1"}`+
			annotations+`}}`)
}

// annotate sets an annotation of the Node.
func (w *fixture) annotate(key, value string) {
	w.Helper()
	w.must("PATCH", nodes+"/node-1",
		fmt.Sprintf(`{"metadata": {"annotations": {%q: %q}}}`, key, value))
}

// annotated waits until the Node says that it runs this configuration.
func (w *fixture) annotated(text string) { w.Helper(); w.carries(applied, sum(text)) }

// carries waits until the Node's annotation has the value, "" if none.
func (w *fixture) carries(key, value string) {
	w.Helper()
	w.await("the Node's annotation "+key, func() error {
		n, err := w.get(nodes + "/node-1")
		if got := n.Metadata.Annotations[key]; err == nil && got != value {
			err = fmt.Errorf("%q", got)
		}
		return err
	})
}

func (w *fixture) approve() { w.Helper(); w.ApproveNodeAgent(w.TB, 20*time.Second) }

// asked counts the node's requests for certificates.
func (w *fixture) asked() int {
	w.Helper()
	all, err := w.get(signings)
	if err != nil {
		w.Fatal(err)
	}

	n := 0
	for _, r := range all.Items {
		if strings.HasPrefix(r.Metadata.Name, "node-agent-csr-") {
			n++
		}
	}

	return n
}
