package node

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/test/cluster"
	"github.com/loam-os/loam/test/judge"
	"github.com/loam-os/loam/test/vm"
)

// TestAClusterIsUpgraded has a machine that is a cluster upgrade itself. In make
// cluster-proof, it falls back first from a system in which no kubelet starts, and at
// last in a drill. The cluster stays what it is, and its API server is away for the
// restarts only.
func TestAClusterIsUpgraded(t *testing.T) {
	judge.Long(t, "TestUpgrades and TestAMachineIsACluster")
	parallel(t, 10*time.Minute)
	v2 := next(t)
	good := v2.publish(t, nil)
	bad := v2.publish(t,
		withCmdline("systemd.unified_cgroup_hierarchy=0 SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1")(t))
	k8s := kubernetesBundle(t, false)
	for _, u := range []updates{bad, good} {
		u.PublishKubernetes(k8s.Index, k8s.Pack)
	}
	port, release, err := cluster.ReservePort("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	defer release()

	n := prepareUpgradable(t, good)
	n.config.MemoryMB = 4096
	n.config.CPUs = 2
	n.config.Forward = map[int]int{port: 6443}
	n.credentials = clusterFrom(t, good)
	if isProof() {
		n.credentials = clusterFrom(t, bad)
	}
	n.start()
	n.up()
	n.awaitNode()
	before := n.clusterIdentity()
	api := watchAPI(t, n.sh("loam cluster kubeconfig --for 5h --address 127.0.0.1"), port)
	restarts := 0

	second := v2.manifest.Version
	command := "loam upgrade --now --stay"
	if isProof() {
		n.sh("loam upgrade --stay")
		n.credentials = clusterFrom(t, good)
		n.fallsBack(second, "")
		n.wantCluster(before)
		restarts += 2 // to the bad system, and back
		api.wantAway(t, restarts)
		command = "loam upgrade --again --now --stay"
	}

	n.sh(command)
	n.reboot()
	n.boots(second, "b")
	n.up()
	n.says(func(s status.Status) bool {
		return s.Upgrade != nil && s.Upgrade.Phase == "" && s.Phase == status.Applied
	})
	n.wantCluster(before)
	restarts++
	api.wantAway(t, restarts)

	if isProof() {
		n.drills()
		n.want("sed -n s/^IMAGE_VERSION=//p /usr/lib/os-release", second)
		n.wantCluster(before)
		restarts += 2 // to the other system, and back
		api.wantAway(t, restarts)
	}
	n.off()
}

// drills has the machine fall back in a drill, and come back to its system.
func (n *upgradable) drills() {
	n.node.t.Helper()
	fmt.Fprintln(n.Shell(), "loam drill --by check")
	n.ended()
	n.start()
	n.ended()
	n.start()
	n.up()
	n.says(func(s status.Status) bool {
		return s.Upgrade != nil && s.Upgrade.Drill != nil && s.Upgrade.Phase == "" &&
			s.Phase == status.Applied
	})
}

// clusterFrom is a machine that is a cluster, and upgrades itself from that repository.
// Its trials have the time that a control plane takes to start in emulation.
func clusterFrom(t *testing.T, u updates) map[string]string {
	t.Helper()
	return map[string]string{"loam.machine": fmt.Sprintf(`apiVersion: loam.dev/v1alpha1
kind: Machine
hostname: hello
debugShell: [%s]
cluster:
  init: {name: plant-7, kubernetes: %s, addOns: [kube-proxy]}
  allowSlowDisk: true
`, vm.ShellTTY(open(t).manifest.Arch), ownVersion) +
		strings.Replace(u.machineYAML(), "trial: 2m", "trial: 6m", 1)}
}

// clusterIdentity returns what says that a cluster is the same: the sums of its
// authorities, the UIDs of its Node and of a namespace, and the member of etcd.
func (n *node) clusterIdentity() string {
	n.t.Helper()
	uid := func(path string) string {
		return n.sh(apiCommand("GET", path) + ` | sed -n 's/.*"uid": "\(.*\)",/\1/p' | head -n 1`)
	}
	return strings.Join([]string{
		n.sh(sumAuthorities),
		uid("/api/v1/nodes/hello"),
		uid("/api/v1/namespaces/kube-system"),
		n.sh("ls /var/lib/etcd/member/wal | head -n 1"),
	}, "\n")
}

// wantCluster waits until the Node is Ready, and fails unless the cluster is the same.
func (n *node) wantCluster(before string) {
	n.t.Helper()
	n.awaitNode()
	if after := n.clusterIdentity(); after != before {
		n.t.Errorf("the cluster was\n%s\nand is\n%s", before, after)
	}
}

// apiWatch asks an API server all the time, and counts how often it went away.
type apiWatch struct {
	mu     sync.Mutex
	served bool
	gone   int
}

// watchAPI asks the API server of a kubeconfig at that port of this host, until the
// test ends.
func watchAPI(t *testing.T, kubeconfig string, port int) *apiWatch {
	t.Helper()
	text := strings.ReplaceAll(kubeconfig, ":6443", fmt.Sprint(":", port))
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	// A slow answer is one; a machine that is off refuses the connection.
	config.Timeout = 5 * time.Minute
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}

	w := &apiWatch{}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			w.ask(ctx, client, config.Host+"/livez")
			select {
			case <-ctx.Done():
			case <-time.After(pollPause):
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return w
}

func (w *apiWatch) ask(ctx context.Context, client *http.Client, url string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return
	}
	answer, err := client.Do(request)
	serves := err == nil
	if serves {
		answer.Body.Close()
	}

	w.mu.Lock()
	defer w.mu.Unlock()
	if w.served && !serves {
		w.gone++
	}
	w.served = serves
}

// away returns how often the API server went away.
func (w *apiWatch) away() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gone
}

// wantAway fails if the API server went away more often than the machine restarted, or
// was not asked.
func (w *apiWatch) wantAway(t *testing.T, restarts int) {
	t.Helper()
	if got := w.away(); got == 0 || got > restarts {
		t.Errorf("the API server went away %d times, with %d restarts", got, restarts)
	}
}
