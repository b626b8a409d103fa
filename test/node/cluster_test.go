package node

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/liveness"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/test/cluster"
	"github.com/loam-os/loam/test/cluster/testcluster"
	"github.com/loam-os/loam/test/judge"
)

const podsAPI = "/api/v1/namespaces/default/pods"

// clusterTest is a test with a cluster of its own.
type clusterTest struct {
	*testing.T
	testcluster.Fixture
}

// newClusterTest starts a cluster for nodes of these names, or for the one that is
// testcluster.Node.
func newClusterTest(t *testing.T, arch string, nodes ...string) *clusterTest {
	w := &clusterTest{
		T: t,
		Fixture: testcluster.Fixture{
			Cluster:  cluster.Start(t, cluster.Options{Controllers: true, Scheduler: true}),
			Registry: cluster.StartRegistry(t, cluster.RegistryOptions{}),
			Arch:     arch,
			Nodes:    nodes,
		},
	}
	if err := w.Prepare(t.Context(), cluster.Program(t, "kubelet")); err != nil {
		t.Fatal(err)
	}
	return w
}

// put creates or updates a Secret of kube-system.
func (w *clusterTest) put(name, key, value string) {
	w.Helper()
	if err := w.Put(name, key, value); err != nil {
		w.Fatal(err)
	}
}

// publish gives the node a configuration (testcluster.Fixture.OSC).
func (w *clusterTest) publish(maxPods int, flags, files string) {
	w.Helper()
	w.put(testcluster.Secret, "osc.yaml", w.OSC(maxPods, flags, files))
}

// await asks the API server until right is nil.
func (w *clusterTest) await(what, path string, right func(object map[string]any) error) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 2*stepTimeout)
	defer cancel()
	if err := w.Await(ctx, path, right); err != nil {
		w.Fatalf("%s: %v", what, err)
	}
}

// TestNodeOfACluster is the image in a cluster: it joins with a token, its
// kubelet comes from an image, a pod runs.
func TestNodeOfACluster(t *testing.T) {
	parallel(t, 4*time.Minute)
	b := open(t)
	w := newClusterTest(t, b.manifest.Arch)
	w.publish(20, "", "")

	m := b.flash(t, b.file(".raw"))
	if err := w.Connect(&m.config); err != nil {
		t.Fatal(err)
	}

	m.config.Clock = "1970-01-01" // Its battery is empty.
	n := m.on(t, map[string]string{"loam.machine": w.Machine(w.BootstrapToken(t))})
	n.shell()

	n.says(func(s status.Status) bool {
		return s.Cluster != nil && !s.Cluster.Connected &&
			strings.Contains(s.Cluster.Problem, "not yet valid")
	})

	n.sh(fmt.Sprintf("date -s @%d", time.Now().Unix())) // As NTP would.
	w.ApproveNodeAgent(t, stepTimeout)
	n.expect(appliedLine)
	w.await("the Node is Ready", testcluster.NodeAPI, testcluster.Condition("Ready", "True"))
	t.Logf("Ready after %s", time.Since(n.Started()))

	w.hello()

	log, err := w.Do(http.MethodGet, podsAPI+"/hello/log", "")
	if err != nil || string(log) != "hello from hello\n" {
		t.Errorf("log %q %v", log, err)
	}

	t.Run("a container is confined", func(t *testing.T) { isConfined(t, n) })
	t.Run("a pod gets nothing of the kernel", func(t *testing.T) {
		w.T = t
		resists(t, n, w)
	})

	n.t = t
	w.T = t
	n.want("cat /var/lib/thing/token", "first")
	w.put(testcluster.Token, testcluster.Token, "second")
	n.sh("until test $(cat /var/lib/thing/token) = second; do sleep 0.2; done")
	n.proven()

	units := []string{"kubelet.service", "containerd.service"}
	before := n.invocations(units...)

	t.Run("a sysctl file restarts neither", func(t *testing.T) {
		n.t = t
		w.publish(20, "", file("/etc/sysctl.d/50-test.conf", "vm.overcommit_memory = 1"))
		n.sh("until test -e /etc/sysctl.d/50-test.conf; do sleep 0.2; done")
		n.proven()

		after := n.invocations(units...)
		if after[units[0]] != before[units[0]] || after[units[1]] != before[units[1]] {
			t.Errorf("restarted: %v, %v", before, after)
		}
	})

	t.Run("the kubelet's configuration restarts the kubelet", func(t *testing.T) {
		n.t = t
		w.publish(30, "", "")
		n.sh("until grep -q 'maxPods: 30' /var/lib/kubelet/config/kubelet; do sleep 0.2; done")
		n.proven()

		after := n.invocations(units...)
		if after[units[0]] == before[units[0]] || after[units[1]] != before[units[1]] {
			t.Errorf("restarted: %v, %v", before, after)
		}

		before = after
	})

	t.Run("a broken flag is taken back", func(t *testing.T) {
		judge.Long(t, "TestNodeGoesBack, with another unit than the kubelet")
		n.t = t
		w.publish(30, " --no-such-flag", "")

		n.says(func(s status.Status) bool {
			return s.Error != nil && strings.Contains(s.Error.Problem, "was taken back")
		})

		w.await("the Node stays Ready", testcluster.NodeAPI, testcluster.Condition("Ready", "True"))
		// Until it answers, it may not have read the host name, which changes next.
		n.sh("until curl --silent --fail http://" + liveness.KubeletAddress + "/healthz; do sleep 1; done")
	})

	t.Run("a managed file that is deleted comes back", func(t *testing.T) {
		n.t = t
		const conflist = "/etc/cni/net.d/10-bridge.conflist"
		n.sh("rm " + conflist + "; timeout 20 sh -c 'until test -e " + conflist +
			"; do sleep 0.2; done'")
	})

	t.Run("a node that is renamed is the one of machine.yaml again", func(t *testing.T) {
		n.t = t
		n.sh("export before=$(systemctl show -P MainPID loam-agent.service); hostname other; " +
			"timeout 60 sh -c " +
			"'until test $(hostname) != other -a $(systemctl show -P MainPID loam-agent.service) " +
			"!= $before; do sleep 0.2; done'")
		w.await("the Node is Ready", testcluster.NodeAPI, testcluster.Condition("Ready", "True"))
	})

	t.Run("an update in place", func(t *testing.T) {
		judge.Long(t, "TestTheCourseOfAnUpdateInPlace of test/recorded")
		n.t = t
		w.T = t
		updatesInPlace(t, n, w)
	})

	if os.Getenv("LOAM_ALL") != "" { // It asserts nothing.
		t.Run("the idle agent is measured", func(t *testing.T) {
			n.t = t
			w.T = t
			measureIdle(t, n, w)
		})
	}

	t.Run("a reset leaves nothing of the cluster", func(t *testing.T) {
		judge.Long(t, "TestResetUnderSystemd of agent")
		n.t = t
		n.want("loam reset --yes 2>/dev/null",
			"reset: the node follows no configuration until `loam apply`, or another machine.yaml")

		n.says(func(s status.Status) bool {
			return s.Reset != nil && s.Reset.Done && s.Generation == ""
		})

		n.want("find /var/lib/kubelet /var/lib/gardener-node-agent /var/lib/loam/generations "+
			"/var/lib/loam/store -mindepth 1 -not -type d", "")
		n.want(
			"systemctl is-active kubelet.service; "+
				"ls /run/containerd/io.containerd.runtime.v2.task/k8s.io 2>/dev/null; "+
				"find /etc -lname '/run/loam/current/*'; true",
			"inactive",
		)
	})

	n.t = t
	w.T = t
	n.off()
}
