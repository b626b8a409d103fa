package recorded

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/test/cluster"
)

func TestANodeOfARealCluster(t *testing.T) {
	w := newWorld(t, cluster.Options{Controllers: true})
	w.put(secretName, map[string]string{"osc.yaml": osc("one")})
	w.put("token", map[string]string{"token": "first"})
	w.start(t.TempDir(), w.BootstrapToken(t))
	w.approve()
	w.file("etc/a", "one")
	w.file("var/lib/thing/token", "first")

	w.addNode()
	w.annotated(osc("one"))
	w.await("what the Node carries", func() error {
		n := w.must("GET", nodes+"/node-1", "")
		labels := n["metadata"].(map[string]any)["labels"].(map[string]any)
		for key, want := range map[string]string{
			"node-role.kubernetes.io/worker": "", "topology.kubernetes.io/zone": "zone-1", "worker.gardener.cloud/kubernetes-version": "1.36.3",
		} {
			if labels[key] != want {
				return fmt.Errorf("labels %v", labels)
			}
		}
		conditions, _ := n["status"].(map[string]any)["conditions"].([]any)
		for _, c := range conditions {
			if c := c.(map[string]any); c["type"] == "SystemdUnitsReady" && c["status"] == "True" && c["reason"] == "AllUnitsHealthy" {
				return nil
			}
		}
		return fmt.Errorf("conditions %v", conditions)
	})
	w.await("the Lease", func() error {
		_, err := w.Do("GET", leases+"gardener-node-agent-node-1", "")
		return err
	})

	t.Run("the last of two updates wins", func(t *testing.T) {
		w.node.Systemd.Calls()
		w.put(secretName, map[string]string{"osc.yaml": osc("two")})
		w.put(secretName, map[string]string{"osc.yaml": osc("three")})
		w.annotated(osc("three"))
		w.file("etc/a", "three")
		if calls := w.node.Systemd.Calls(); len(calls) > 2 {
			t.Errorf("jobs %v", calls)
		}
	})
	t.Run("a token reaches its file", func(t *testing.T) {
		w.put("token", map[string]string{"token": "second"})
		w.file("var/lib/thing/token", "second")
	})
	t.Run("a Secret that is referred to is watched", func(t *testing.T) {
		w.put("ca", map[string]string{"bundle.crt": "A"})
		w.put(secretName, map[string]string{"osc.yaml": osc("three") + "  - path: /etc/ca\n    content: {secretRef: {name: ca, dataKey: bundle.crt}}\n"})
		w.file("etc/ca", "A")
		w.put("ca", map[string]string{"bundle.crt": "B"})
		w.file("etc/ca", "B")
	})
	t.Run("the Secret goes and comes back", func(t *testing.T) {
		w.must("DELETE", secrets+"/"+secretName, "")
		w.file("etc/a", "three")
		w.put(secretName, map[string]string{"osc.yaml": osc("four")})
		w.annotated(osc("four"))
	})
	t.Run("the Node goes and comes back", func(t *testing.T) {
		w.must("DELETE", nodes+"/node-1", "")
		w.addNode()
		w.annotated(osc("four"))
	})
	t.Run("an annotation restarts units", func(t *testing.T) {
		w.node.Systemd.Calls()
		w.must("PATCH", nodes+"/node-1", `{"metadata": {"annotations": {"worker.gardener.cloud/restart-systemd-services": "a, b.timer"}}}`)
		w.await("restarts", func() error {
			n := w.must("GET", nodes+"/node-1", "")
			if n["metadata"].(map[string]any)["annotations"].(map[string]any)["worker.gardener.cloud/restart-systemd-services"] != nil {
				return errors.New("the annotation is still there")
			}
			return nil
		})
		if calls := strings.Join(w.node.Systemd.Calls(), ", "); calls != "restart a.service, restart b.timer" {
			t.Errorf("jobs %q", calls)
		}
	})
	t.Run("the API server goes and comes back", func(t *testing.T) {
		w.StopAPI(t)
		w.await("the status", func() error {
			if link := w.node.Cluster.Link(); link.Connected {
				return errors.New("still connected")
			}
			return nil
		})
		w.StartAPI(t)
		w.put(secretName, map[string]string{"osc.yaml": osc("five")})
		start := time.Now()
		w.annotated(osc("five"))
		t.Logf("back after %s", time.Since(start))
	})
}
