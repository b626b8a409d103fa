package node

import (
	"archive/tar"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/bundle"
	"github.com/loam-os/loam/agent/plane/pki"
	"github.com/loam-os/loam/agent/show"
	"github.com/loam-os/loam/test/cluster"
	"github.com/loam-os/loam/test/cluster/testcluster"
	"github.com/loam-os/loam/test/vm"
)

const (
	ownVersion = "1.37.2"
	ownImage   = "registry.test/hello:v1"
)

// TestAMachineIsACluster starts a machine with cluster.init and the programs of
// Kubernetes on its disk. It becomes a Ready Node that runs a pod, and is one again
// after a restart.
func TestAMachineIsACluster(t *testing.T) {
	if os.Getenv("LOAM_CLUSTER") == "" {
		t.Skip("takes 10 minutes: make cluster-proof runs it")
	}
	b := open(t)
	served := serveBundle(t, b.manifest.Arch)

	m := b.flash(t, b.file(".raw"))
	m.config.Host = true
	m.config.MemoryMB = 4096
	m.config.CPUs = 2
	machine := map[string]string{"loam.machine": fmt.Sprintf(`apiVersion: loam.dev/v1alpha1
kind: Machine
hostname: hello
debugShell: [%s]
cluster:
  init: {name: plant-7, kubernetes: %s}
`, vm.ShellTTY(b.manifest.Arch), ownVersion)}

	n := m.on(t, machine)
	n.shell()
	n.sh("until ip route get 10.0.2.2 >/dev/null 2>&1; do sleep 1; done")
	n.sh(fmt.Sprintf("mkdir -p %[1]s/.new && curl --silent --fail http://10.0.2.2:%[2]s/ | "+
		"tar --extract --directory=%[1]s/.new && sync && mv %[1]s/.new %[1]s/%[3]s",
		bundle.Directory, served, ownVersion))
	n.awaitNode()
	t.Logf("Ready after %s", time.Since(n.Started()))

	n.api("default/pods", "--data", fmt.Sprintf(`{"metadata": {"name": "hello"}, "spec": {
		"containers": [{"name": "hello", "image": "%s", "imagePullPolicy": "Never"}]}}`, ownImage))
	n.awaitPod()
	t.Logf("the pod runs after %s", time.Since(n.Started()))
	if log := n.api("default/pods/hello/log"); log != "hello from hello" {
		t.Errorf("log %q", log)
	}
	n.checkCommands()
	keys := n.sh("sha256sum " + plane.KeysDirectory + "/authorities/*")
	n.off()

	n = m.on(t, machine)
	n.shell()
	n.awaitNode()
	t.Logf("Ready again after %s", time.Since(n.Started()))
	n.awaitPod()
	t.Logf("the pod runs again after %s", time.Since(n.Started()))
	n.want("sha256sum "+plane.KeysDirectory+"/authorities/*", keys)
	n.off()
}

// checkCommands runs the commands for the node's own cluster. The kubeconfig reaches
// the API server at the node's address.
func (n *node) checkCommands() {
	n.t.Helper()
	var shown show.OwnCluster
	if err := json.Unmarshal([]byte(n.sh("loam cluster status -o json")), &shown); err != nil {
		n.t.Fatal(err)
	}
	if shown.Name != "plant-7" || shown.API != "ok" || shown.Etcd != "ok" || len(shown.Units) != 5 {
		n.t.Errorf("cluster %+v", shown)
	}

	var access struct {
		Users []struct {
			User struct {
				Pair []byte `json:"client-key-data"`
			}
		}
		Clusters []struct{ Cluster struct{ Server string } }
	}
	if err := json.Unmarshal([]byte(n.sh("loam cluster kubeconfig --for 1h")), &access); err != nil {
		n.t.Fatal(err)
	}
	n.write("/run/access.pem", string(access.Users[0].User.Pair))
	server := strings.TrimPrefix(access.Clusters[0].Cluster.Server, "https://")
	n.want(fmt.Sprintf("curl --silent --fail --cert /run/access.pem --cacert %s --connect-to ::%s "+
		"https://%s:6443/readyz", pki.Files{Dir: plane.KeysDirectory}.Authority(pki.CA), server,
		pki.ServerName), "ok")
}

// api asks the API server for something in a namespace, with further arguments for
// curl.
func (n *node) api(path string, args ...string) string {
	n.t.Helper()
	return n.sh(apiCommand("namespaces/"+path, args...))
}

func apiCommand(path string, args ...string) string {
	keys := pki.Files{Dir: plane.KeysDirectory}
	command := []string{
		"curl", "--silent", "--fail", "--cacert", keys.Authority(pki.CA),
		"--cert", keys.Leaf(pki.KubeletClient), "--connect-to", "::127.0.0.1:",
		"--header", "'Content-Type: application/json'",
	}
	for _, a := range args {
		command = append(command, "'"+strings.Join(strings.Fields(a), " ")+"'")
	}
	return strings.Join(append(command,
		fmt.Sprintf("https://%s:6443/api/v1/%s", pki.ServerName, path)), " ")
}

// awaitNode waits until the Node is Ready in this run of the machine.
func (n *node) awaitNode() {
	n.t.Helper()
	n.awaitReady("nodes/hello")
}

// awaitPod waits until the pod is Ready in this run of the machine.
func (n *node) awaitPod() {
	n.t.Helper()
	n.awaitReady("namespaces/default/pods/hello")
}

// conditions are the conditions of an object.
type conditions struct {
	Status struct {
		Conditions []struct {
			Type, Status                          string
			LastTransitionTime, LastHeartbeatTime time.Time
		}
	}
}

// readySince returns when an object was last found Ready, zero if it is not.
func (c conditions) readySince() time.Time {
	var since time.Time
	for _, one := range c.Status.Conditions {
		if one.Type != "Ready" || one.Status != "True" {
			continue
		}
		since = one.LastTransitionTime
		if one.LastHeartbeatTime.After(since) {
			since = one.LastHeartbeatTime
		}
	}
	return since
}

// awaitReady waits until an object is Ready since the machine was switched on.
func (n *node) awaitReady(path string) {
	n.t.Helper()
	var text string
	for end := time.Now().Add(3 * stepTimeout); time.Now().Before(end); {
		text = n.sh(apiCommand(path) + " || true; sleep 2")
		var object conditions
		err := json.Unmarshal([]byte(text), &object)
		if err == nil && object.readySince().After(n.Started()) {
			return
		}
	}
	n.t.Fatalf("%s is not Ready:\n%s\n%s\n%s", path, text,
		n.sh("loam status; systemctl --failed --no-legend"),
		n.sh("journalctl -b --no-pager -p warning -n 60 -o cat"))
}

// serveBundle serves a bundle as a tar archive on this host's loopback, and returns
// the port.
func serveBundle(t *testing.T, arch string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), ownVersion)
	programs := map[string]string{}
	for _, name := range bundle.Programs {
		if name != "etcdutl" {
			programs[name] = cluster.Program(t, name)
		}
	}
	// Nothing here restores a snapshot.
	programs["etcdutl"] = programs["etcd"]

	wait, err := testcluster.Program(t.Context(), arch, testcluster.Greet)
	if err != nil {
		t.Fatal(err)
	}
	image := cluster.Image{
		Arch:       arch,
		Layers:     []cluster.Layer{{"hello": {Content: wait, Mode: 0o755}}},
		Entrypoint: []string{"/hello"},
	}
	images := map[string]cluster.Image{"registry.k8s.io/pause:3.10.1": image, ownImage: image}
	if err := cluster.WriteBundle(dir, ownVersion, programs, images); err != nil {
		t.Fatal(err)
	}

	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		archive := tar.NewWriter(w)
		if err := archive.AddFS(os.DirFS(dir)); err != nil {
			t.Log(err)
		}
		_ = archive.Close() // tar on the node notices an end that is missing.
	}))
	t.Cleanup(server.Close)
	_, port, _ := strings.Cut(strings.TrimPrefix(server.URL, "http://"), ":")
	return port
}
