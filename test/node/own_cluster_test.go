package node

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/bundle"
	"github.com/loam-os/loam/agent/plane/pki"
	"github.com/loam-os/loam/agent/show"
	index "github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/test/cluster"
	"github.com/loam-os/loam/test/cluster/testcluster"
	"github.com/loam-os/loam/test/cluster/upstream"
	published "github.com/loam-os/loam/test/updates"
	"github.com/loam-os/loam/test/vm"
)

const (
	ownVersion = "1.37.2"
	ownImage   = "registry.test/hello:v1"
)

// TestAMachineIsACluster starts a machine with cluster.init and a repository with a
// bundle of Kubernetes. It becomes a Ready Node with a web server, which pods reach
// by the DNS name of its Service, and is one again after a restart.
func TestAMachineIsACluster(t *testing.T) {
	if os.Getenv("LOAM_CLUSTER") == "" {
		t.Skip("takes 10 minutes: make cluster-proof runs it")
	}
	b := open(t)
	repository, root := serveKubernetes(t)
	images := serveImages(t, b.manifest.Arch)

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
  allowSlowDisk: true
upgrade:
  repository: http://10.0.2.2:%s
  root: %q
`, vm.ShellTTY(b.manifest.Arch), ownVersion, repository, root)}

	n := m.on(t, machine)
	n.shell()
	n.awaitNode()
	t.Logf("Ready after %s", time.Since(n.Started()))
	n.sh(fmt.Sprintf("curl --silent --fail http://10.0.2.2:%s/ | "+
		"ctr --namespace=k8s.io images import --local -", images))

	n.createWeb()
	n.createClient("client")
	n.awaitAnswer("client")
	t.Logf("a pod answers by its DNS name after %s", time.Since(n.Started()))
	n.checkCommands()
	keys := n.sh("sha256sum " + plane.KeysDirectory + "/authorities/*")
	n.off()

	n = m.on(t, machine)
	n.shell()
	n.awaitNode()
	t.Logf("Ready again after %s", time.Since(n.Started()))
	n.createClient("client-again")
	n.awaitAnswer("client-again")
	t.Logf("a pod answers again after %s", time.Since(n.Started()))
	n.want("sha256sum "+plane.KeysDirectory+"/authorities/*", keys)
	n.off()
}

// webURL is how pods reach the web server.
const webURL = "http://web.default.svc.cluster.local/node/os-release"

// createWeb creates a web server with a Service.
func (n *node) createWeb() {
	n.t.Helper()
	n.api("POST", "/apis/apps/v1/namespaces/default/deployments", "--data", fmt.Sprintf(`{
		"metadata": {"name": "web"},
		"spec": {
			"selector": {"matchLabels": {"app": "web"}},
			"template": {
				"metadata": {"labels": {"app": "web"}},
				"spec": {"containers": [{
					"name": "web", "image": "%s", "imagePullPolicy": "Never",
					"volumeMounts": [{"name": "node", "mountPath": "/node", "readOnly": true}]}],
					"volumes": [{"name": "node", "hostPath": {"path": "/usr/lib"}}]}}}}`, ownImage))
	n.api("POST", "/api/v1/namespaces/default/services", "--data", `{
		"metadata": {"name": "web"},
		"spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]}}`)
}

// createClient creates a pod that asks the web server.
func (n *node) createClient(name string) {
	n.t.Helper()
	n.api("POST", "/api/v1/namespaces/default/pods", "--data", fmt.Sprintf(`{
		"metadata": {"name": "%s"},
		"spec": {"containers": [{
			"name": "client", "image": "%s", "imagePullPolicy": "Never", "args": ["%s"]}]}}`,
		name, ownImage, webURL))
}

// awaitAnswer waits until the client says what the web server has answered: a file
// of the node.
func (n *node) awaitAnswer(pod string) {
	n.t.Helper()
	want := n.sh("head -n 1 /usr/lib/os-release")
	var log string
	for end := time.Now().Add(3 * stepTimeout); time.Now().Before(end); {
		log = n.sh(apiCommand("GET", "/api/v1/namespaces/default/pods/"+pod+"/log") +
			" 2>&1 || true; sleep 1")
		if strings.Contains(log, want) {
			return
		}
	}
	n.t.Fatalf("the client says %q, want %q\n%s", log, want, n.explain())
}

// explain returns what the node and its cluster say about themselves.
func (n *node) explain() string {
	n.t.Helper()
	return n.sh("loam status; loam cluster status; systemctl --failed --no-legend; "+
		"journalctl -b --no-pager -p warning -n 60 -o cat; "+
		"crictl ps -a 2>/dev/null; nft list ruleset | tail -n 60") + "\n" +
		n.sh(apiCommand("GET", "/api/v1/namespaces/default/pods")+" | tail -c 4000 || true")
}

// checkCommands runs the commands for the node's own cluster. The kubeconfig reaches
// the API server at the node's address.
func (n *node) checkCommands() {
	n.t.Helper()
	var shown show.OwnCluster
	if err := json.Unmarshal([]byte(n.sh("loam cluster status -o json")), &shown); err != nil {
		n.t.Fatal(err)
	}
	if shown.Name != "plant-7" || shown.API != "ok" || shown.Etcd != "ok" || len(shown.Units) != 6 {
		n.t.Errorf("cluster %+v", shown)
	}
	if shown.Storage == nil || shown.Storage.Size == 0 || shown.Storage.Quota == 0 {
		n.t.Errorf("storage of etcd %+v", shown.Storage)
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

// api sends a request to the API server, with further arguments for curl.
func (n *node) api(method, path string, args ...string) string {
	n.t.Helper()
	return n.sh(apiCommand(method, path, args...))
}

func apiCommand(method, path string, args ...string) string {
	keys := pki.Files{Dir: plane.KeysDirectory}
	command := []string{
		"curl", "--silent", "--fail", "--request", method, "--cacert", keys.Authority(pki.CA),
		"--cert", keys.Leaf(pki.KubeletClient), "--connect-to", "::127.0.0.1:",
		"--header", "'Content-Type: application/json'",
	}
	for _, a := range args {
		command = append(command, "'"+strings.Join(strings.Fields(a), " ")+"'")
	}
	return strings.Join(append(command,
		fmt.Sprintf("https://%s:6443%s", pki.ServerName, path)), " ")
}

// awaitNode waits until the Node is Ready in this run of the machine.
func (n *node) awaitNode() {
	n.t.Helper()
	n.awaitReady("/api/v1/nodes/hello")
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
		text = n.sh(apiCommand("GET", path) + " || true; sleep 1")
		var object conditions
		err := json.Unmarshal([]byte(text), &object)
		if err == nil && object.readySince().After(n.Started()) {
			return
		}
	}
	n.t.Fatalf("%s is not Ready:\n%s\n%s", path, text, n.explain())
}

// serveKubernetes serves a repository with a bundle of Kubernetes on this host's
// loopback, and returns the port, and what a node trusts.
func serveKubernetes(t *testing.T) (port string, root []byte) {
	t.Helper()
	programs := map[string]string{}
	for _, name := range slices.Concat(bundle.Programs, index.KubernetesImages()) {
		programs[name] = cluster.Program(t, name)
	}
	b, err := upstream.Bundle(t.Context(), programs)
	if err != nil {
		t.Fatal(err)
	}

	r := published.New(t)
	r.PublishKubernetes(b.Index, b.Pack)
	return serveOn(t, http.FileServer(http.Dir(r.Dir))), r.Root()
}

// serveOn serves on this host's loopback, and returns the port.
func serveOn(t *testing.T, handler http.Handler) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	_, port, _ := strings.Cut(strings.TrimPrefix(server.URL, "http://"), ":")
	return port
}

// serveImages serves an archive with the image of the pods.
func serveImages(t *testing.T, arch string) string {
	t.Helper()
	web, err := testcluster.Program(t.Context(), arch, testcluster.Web)
	if err != nil {
		t.Fatal(err)
	}
	images := map[string]cluster.Image{ownImage: {
		Arch:       arch,
		Layers:     []cluster.Layer{{"web": {Content: web, Mode: 0o755}}},
		Entrypoint: []string{"/web"},
	}}
	return serveOn(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		// ctr on the node notices an end that is missing.
		_ = cluster.WriteArchive(w, images)
	}))
}
