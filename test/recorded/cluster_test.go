package recorded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/status"
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

func TestANodeWithoutItsCluster(t *testing.T) {
	w := newWorld(t, cluster.Options{Controllers: true})
	w.put(secretName, map[string]string{"osc.yaml": osc("one")})
	dir := t.TempDir()
	w.start(dir, w.BootstrapToken(t))
	w.approve()
	w.addNode()
	w.annotated(osc("one"))
	w.stop()

	w.StopAPI(t)
	w.start(dir, "")
	w.await("the status", func() error {
		s, err := w.status()
		if err == nil && (s.Phase != status.Applied || s.Cluster == nil || s.Cluster.Connected || s.Cluster.Problem == "" || s.Cluster.Since.IsZero()) {
			err = fmt.Errorf("%+v %+v", s, s.Cluster)
		}
		return err
	})
	w.file("etc/a", "one")
	w.StartAPI(t)
	w.put(secretName, map[string]string{"osc.yaml": osc("two")})
	w.annotated(osc("two"))
}

func TestACertificateThatExpiredIsReplacedByTheToken(t *testing.T) {
	w := newWorld(t, cluster.Options{Controllers: true})
	w.put(secretName, map[string]string{"osc.yaml": osc("one")})
	dir := t.TempDir()
	w.start(dir, w.BootstrapToken(t))
	w.approve()
	w.file("etc/a", "one")
	w.stop()

	w.ahead.Store(int64(60 * 24 * time.Hour))
	w.start(dir, "")
	w.await("the status", func() error {
		s, err := w.status()
		if err == nil && (s.Cluster == nil || !strings.Contains(s.Cluster.Problem, "no bootstrap token")) {
			err = fmt.Errorf("%+v", s.Cluster)
		}
		return err
	})
	// An operator brings a new token: nothing has to be restarted.
	w.write("var/lib/gardener-node-agent/credentials/bootstrap-token", w.BootstrapToken(t))
	w.approve()
	w.ahead.Store(0)
	w.addNode()
	w.put(secretName, map[string]string{"osc.yaml": osc("two")})
	w.annotated(osc("two"))
	if _, err := os.Stat(filepath.Join(dir, "var/lib/gardener-node-agent/credentials/bootstrap-token")); err == nil {
		t.Error("the token is still there")
	}
}

func TestACertificateIsRenewedInTime(t *testing.T) {
	w := newWorld(t, cluster.Options{Controllers: true})
	w.put(secretName, map[string]string{"osc.yaml": osc("one")})
	dir := t.TempDir()
	w.start(dir, w.BootstrapToken(t))
	w.approve()
	w.addNode()
	w.annotated(osc("one"))
	w.stop()
	name := filepath.Join(dir, "var/lib/gardener-node-agent/credentials/kubeconfig")
	before, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	w.ahead.Store(int64(27 * 24 * time.Hour))
	w.start(dir, "")
	w.approve()
	w.await("a new certificate", func() error {
		after, err := os.ReadFile(name)
		if err == nil && string(after) == string(before) {
			err = errors.New("the same as before")
		}
		return err
	})
	w.ahead.Store(0) // The new one is of the real time.
	w.put(secretName, map[string]string{"osc.yaml": osc("two")})
	w.annotated(osc("two"))
}

func TestNodesTakeTurns(t *testing.T) {
	w := newWorld(t, cluster.Options{Controllers: true})
	w.serial = true
	w.put(secretName, map[string]string{"osc.yaml": osc("one")})
	w.start(t.TempDir(), w.BootstrapToken(t))
	w.approve()
	w.addNode()
	w.annotated(osc("one"))
	lease := func(holder, renewed string) string {
		return `{"metadata": {"name": "` + secretName + `"}, "spec": {"holderIdentity": "` + holder + `", "leaseDurationSeconds": 600, "renewTime": "` + renewed + `"}}`
	}
	w.must("POST", strings.TrimSuffix(leases, "/"), lease("another", time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")))
	w.put(secretName, map[string]string{"osc.yaml": osc("two")})
	time.Sleep(time.Second) // Nothing is to happen.
	w.file("etc/a", "one")
	w.must("PATCH", leases+secretName, `{"spec": {"holderIdentity": null, "renewTime": null, "leaseDurationSeconds": null}}`)
	w.annotated(osc("two"))
	w.await("the turn is given on", func() error {
		l := w.must("GET", leases+secretName, "")["spec"].(map[string]any)
		if l["holderIdentity"] != nil {
			return fmt.Errorf("%v", l)
		}
		return nil
	})
}

func TestAChangeWaitsForItsDelay(t *testing.T) {
	w := newWorld(t, cluster.Options{Controllers: true})
	w.put(secretName, map[string]string{"osc.yaml": osc("one")})
	w.start(t.TempDir(), w.BootstrapToken(t))
	w.approve()
	w.must("POST", nodes, `{"metadata": {"name": "node-1", "labels": {"kubernetes.io/hostname": "host-1"}, "annotations": {"node-agent.gardener.cloud/reconciliation-delay": "2s"}}}`)
	w.annotated(osc("one"))
	start := time.Now()
	w.put(secretName, map[string]string{"osc.yaml": osc("two")})
	w.annotated(osc("two"))
	if took := time.Since(start); took < 1900*time.Millisecond {
		t.Errorf("after %s", took)
	}
}

func TestTheNodeNamesAnotherSecret(t *testing.T) {
	w := newWorld(t, cluster.Options{Controllers: true})
	w.put(secretName, map[string]string{"osc.yaml": osc("one")})
	w.put("ca", map[string]string{"osc.yaml": osc("other")})
	dir := t.TempDir()
	w.start(dir, w.BootstrapToken(t))
	w.approve()
	w.addNode()
	w.annotated(osc("one"))
	w.must("PATCH", nodes+"/node-1", `{"metadata": {"labels": {"worker.gardener.cloud/gardener-node-agent-secret-name": "ca"}}}`)
	w.annotated(osc("other"))
	w.stop()
	w.start(dir, "")
	w.put("ca", map[string]string{"osc.yaml": osc("more")})
	w.annotated(osc("more"))
}

func TestIPv6Only(t *testing.T) {
	w := newWorld(t, cluster.Options{Controllers: true, Bind: "::1"})
	w.put(secretName, map[string]string{"osc.yaml": osc("one")})
	w.start(t.TempDir(), w.BootstrapToken(t))
	w.approve()
	w.addNode()
	w.annotated(osc("one"))
}
