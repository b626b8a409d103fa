package recorded

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/test/cluster"
)

func TestANodeOfARealCluster(t *testing.T) {
	t.Parallel()
	w := newFixture(t, cluster.Options{Controllers: true})
	w.put("token", map[string]string{"token": "first"})
	w.join(osc("one"))
	w.file(tokenFile, "first")

	w.await("what the Node carries", func() error {
		n, err := w.get(nodes + "/node-1")
		for key, want := range map[string]string{
			"node-role.kubernetes.io/worker": "", "topology.kubernetes.io/zone": "zone-1",
			"worker.gardener.cloud/kubernetes-version": "1.36.3",
		} {
			if have, ok := n.Metadata.Labels[key]; !ok || have != want {
				return fmt.Errorf("labels %v %w", n.Metadata.Labels, err)
			}
		}

		c := n.Status.Conditions
		if !slices.Contains(c, condition{"SystemdUnitsReady", "True", "AllUnitsHealthy"}) {
			return fmt.Errorf("conditions %v", c)
		}

		return nil
	})

	w.await("the Lease", func() error { _, err := w.get(nodeLease); return err })

	t.Run("the last of two updates wins", func(t *testing.T) {
		w.systemd.Calls()
		w.says(osc("two"))
		w.becomes(osc("three"))
		w.still("etc/a", "three")
		if calls := w.systemd.Calls(); len(calls) > 2 {
			t.Errorf("jobs %v", calls)
		}
	})

	t.Run("a token reaches its file", func(t *testing.T) {
		w.poke()
		if info, err := os.Stat(w.onNode(tokenFile)); err != nil || info.Mode() != 0o640 {
			t.Errorf("%v, %v", info, err)
		}
	})

	t.Run("a Secret that is referred to is watched", func(t *testing.T) {
		w.put("ca", map[string]string{"bundle.crt": "A"})
		w.says(osc("three") + referring)
		w.file("etc/ca", "A")
		w.put("ca", map[string]string{"bundle.crt": "B"})
		w.file("etc/ca", "B")
	})

	t.Run("the Secret goes and comes back", func(t *testing.T) {
		w.must("DELETE", secrets+"/"+secretName, "")
		w.overtake()
		w.still("etc/a", "three")
		w.becomes(osc("four"))
	})

	t.Run("the Node goes and comes back", func(t *testing.T) {
		w.must("DELETE", nodes+"/node-1", "")
		w.addNode()
		w.annotated(osc("four"))
	})

	t.Run("a file is of the host that it is for", func(t *testing.T) {
		const file = "  - path: /etc/%s\n    hostName: %s\n    content: {inline: {data: x}}\n"
		w.becomes(osc("four") + fmt.Sprintf(file, "mine", "host-1") +
			fmt.Sprintf(file, "other", "host-2"))
		w.still("etc/mine", "x")
		w.absent("etc/other")
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
		start := time.Now()
		w.becomes(osc("five"))
		t.Logf("back after %s", time.Since(start))
	})
}

func TestANodeWithoutItsCluster(t *testing.T) {
	t.Parallel()
	w := joinedFixture(t, osc("one"))
	w.stop()
	w.StopAPI(t)
	w.startAgain()

	w.await("the status", func() error {
		s, err := w.status()
		if err == nil && (s.Phase != status.Applied || s.Cluster == nil || s.Cluster.Connected ||
			s.Cluster.Problem == "" || s.Cluster.Since.IsZero()) {
			err = fmt.Errorf("%+v %+v", s, s.Cluster)
		}
		return err
	})

	w.still("etc/a", "one")
	w.StartAPI(t)
	w.becomes(osc("two"))
}

func TestTheNodeNamesAnotherSecret(t *testing.T) {
	t.Parallel()
	w := newFixture(t, cluster.Options{Controllers: true})
	w.put("ca", map[string]string{"osc.yaml": osc("other")})
	w.join(osc("one"))
	w.must("PATCH", nodes+"/node-1",
		`{"metadata": {"labels": {"worker.gardener.cloud/gardener-node-agent-secret-name": "ca"}}}`)
	w.annotated(osc("other"))
	w.stop()
	w.startAgain()
	w.put("ca", map[string]string{"osc.yaml": osc("more")})
	w.annotated(osc("more"))
}

func TestIPv6Only(t *testing.T) {
	t.Parallel()
	w := newFixture(t, cluster.Options{Controllers: true, Bind: "::1"})
	w.join(osc("one"))
	if !strings.HasPrefix(w.URL(), "https://[::1]:") {
		t.Errorf("the API server is at %s", w.URL())
	}
}
