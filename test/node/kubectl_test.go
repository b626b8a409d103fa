package node

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/loam-os/loam/test/cluster"
)

// kubectl is kubectl on this host with a kubeconfig.
type kubectl struct {
	t            *testing.T
	path, config string
}

// buildKubectl returns kubectl without a kubeconfig.
func buildKubectl(t *testing.T) kubectl {
	t.Helper()
	return kubectl{
		t:      t,
		path:   cluster.Program(t, "kubectl"),
		config: filepath.Join(t.TempDir(), "kubeconfig"),
	}
}

// use has kubectl use the kubeconfig that a node prints. port of this host leads to
// the node's API server.
func (k kubectl) use(n *node, port int) {
	k.t.Helper()
	config := n.sh("loam cluster kubeconfig --for 12h --address 127.0.0.1")
	config = strings.ReplaceAll(config, ":6443", fmt.Sprint(":", port))
	if err := os.WriteFile(k.config, []byte(config), 0o600); err != nil {
		k.t.Fatal(err)
	}
}

func (k kubectl) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, k.path, append([]string{"--kubeconfig", k.config}, args...)...)
	cmd.Stderr = os.Stderr
	return cmd
}

// run returns what a command prints; it must succeed.
func (k kubectl) run(args ...string) string {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), stepTimeout)
	defer cancel()
	out, err := k.command(ctx, args...).Output()
	if err != nil {
		k.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// wantIn fails unless a command prints text that has want in it.
func (k kubectl) wantIn(want string, args ...string) {
	k.t.Helper()
	if out := k.run(args...); !strings.Contains(out, want) {
		k.t.Errorf("kubectl %s: %q, want %q in it", strings.Join(args, " "), out, want)
	}
}

var forwarding = regexp.MustCompile(`^Forwarding from (127\.0\.0\.1:\d+) `)

// wantForwarded fails unless a GET of path, by a forwarded port of a Service, has
// want in it.
func (k kubectl) wantForwarded(service, path, want string) {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), stepTimeout)
	defer cancel()

	cmd := k.command(ctx, "port-forward", "service/"+service, ":80")
	out, err := cmd.StdoutPipe()
	if err != nil {
		k.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		k.t.Fatal(err)
	}
	defer func() {
		cancel()
		_ = cmd.Wait() // It ends with the signal.
	}()

	line, err := bufio.NewReader(out).ReadString('\n')
	address := forwarding.FindStringSubmatch(line)
	if address == nil {
		k.t.Fatalf("kubectl port-forward: %q, %v", line, err)
	}
	answer, err := http.Get("http://" + address[1] + path)
	if err != nil {
		k.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || !strings.Contains(string(text), want) {
		k.t.Errorf("GET %s: %q, %v, want %q in it", path, text, err, want)
	}
}

// checkKubectl does with the web server and its client what people do with pods.
func (n *node) checkKubectl(k kubectl) {
	n.t.Helper()
	want := n.sh("head -n 1 /usr/lib/os-release")
	k.wantIn("Ready", "get", "nodes")
	k.wantIn(want, "logs", "client")
	k.wantIn(want, "exec", "deployment/web", "--", "/web", "http://127.0.0.1:8080"+webPath,
		"once")
	k.wantForwarded("web", webPath, want)
	k.run("scale", "deployment/web", "--replicas=2")
	k.wantIn("successfully rolled out", "rollout", "status", "deployment/web", "--timeout=3m")
}

// containers returns the IDs of the containers of the web server, and how often
// each has restarted.
func (k kubectl) containers() string {
	k.t.Helper()
	return k.run("get", "pods", "--selector=app=web",
		"--output=jsonpath={range .items[*].status.containerStatuses[*]}{.containerID} {.restartCount}\n{end}")
}

// clusterUnits are the units of a node that is a cluster.
var clusterUnits = []string{
	"etcd.service", "kube-apiserver.service", "kube-controller-manager.service",
	"kube-scheduler.service", "kube-proxy.service", "kubelet.service",
}

// checkRestarts restarts each unit of the cluster: the web server runs on.
func (n *node) checkRestarts(k kubectl) {
	n.t.Helper()
	before := k.containers()
	for _, unit := range clusterUnits {
		n.sh("systemctl restart " + unit)
		n.awaitService()
		n.awaitAPI()
	}
	if after := k.containers(); after != before {
		n.t.Errorf("containers of the web server: %q, and before the restarts %q", after, before)
	}
}

// awaitAPI waits until the API server answers.
func (n *node) awaitAPI() {
	n.t.Helper()
	n.sh("until " + apiCommand("GET", "/readyz", "--max-time", "30") + "; do sleep 1; done")
}
