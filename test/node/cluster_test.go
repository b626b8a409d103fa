package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/test/cluster"
)

const (
	poolSecret = "gardener-node-agent-pool"
	secretsAPI = "/api/v1/namespaces/kube-system/secrets"
	nodeAPI    = "/api/v1/nodes/hello"
	podsAPI    = "/api/v1/namespaces/default/pods"
)

// program builds a Go program without anything it would need at run time.
func program(t *testing.T, arch, text string) []byte {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(dir, "program"), filepath.Join(dir, "main.go"))
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text2, err := os.ReadFile(filepath.Join(dir, "program"))
	if err != nil {
		t.Fatal(err)
	}
	return text2
}

// plant is a control plane, a registry, and what a kubelet is made of.
type plant struct {
	*testing.T
	*cluster.Cluster
	registry *cluster.Registry
}

func newPlant(t *testing.T, arch string) *plant {
	p := &plant{T: t, Cluster: cluster.Start(t, cluster.Options{Controllers: true, Scheduler: true}), registry: cluster.StartRegistry(t, cluster.RegistryOptions{})}
	p.AllowNodeAgents(t, "hello")
	kubelet, err := os.ReadFile(cluster.Program(t, "kubelet"))
	if err != nil {
		t.Fatal(err)
	}
	wait := program(t, arch, "package main\n\nimport (\n\t\"fmt\"\n\t\"os\"\n\t\"time\"\n)\n\nfunc main() {\n\tfmt.Println(\"hello from\", os.Getenv(\"HOSTNAME\"))\n\ttime.Sleep(1 << 62)\n}\n")
	for name, content := range map[string][]byte{"kubelet": kubelet, "pause": wait, "hello": wait} {
		files := cluster.Layer{name: {Content: content, Mode: 0o755}}
		p.registry.Push(t, name+":v1", cluster.Image{Arch: arch, Layers: []cluster.Layer{files}, Entrypoint: []string{"/" + name}})
	}
	return p
}

// osc is the configuration of a node with a kubelet. flags are more of it, files
// more of those.
func (p *plant) osc(maxPods int, flags, files string) string {
	indent := func(text, by string) string {
		return by + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n"+by)
	}
	return fmt.Sprintf(`apiVersion: extensions.gardener.cloud/v1alpha1
kind: OperatingSystemConfig
spec:
  purpose: reconcile
  criConfig:
    name: containerd
    cgroupDriver: systemd
    containerd:
      sandboxImage: registry.test/pause:v1
      registries:
      - upstream: registry.test
        hosts:
        - {url: "http://%s", capabilities: [pull, resolve]}
      plugins:
      - {path: [io.containerd.grpc.v1.cri, cni], values: {bin_dir: /usr/lib/cni}}
  units:
  - name: kubelet.service
    content: |
      [Unit]
      After=containerd.service
      [Service]
      Restart=always
      RestartSec=5
      ExecStart=/opt/bin/kubelet --config=/var/lib/kubelet/config/kubelet --bootstrap-kubeconfig=/var/lib/kubelet/kubeconfig-bootstrap --kubeconfig=/var/lib/kubelet/kubeconfig-real --cert-dir=/var/lib/kubelet/pki%s
      [Install]
      WantedBy=multi-user.target
    filePaths: [/opt/bin/kubelet, /var/lib/kubelet/config/kubelet, /var/lib/kubelet/ca.crt]
  files:
  - path: /opt/bin/kubelet
    permissions: 0755
    content: {imageRef: {image: "registry.test/kubelet:v1", filePathInImage: /kubelet}}
  - path: /var/lib/kubelet/ca.crt
    permissions: 0644
    content:
      inline:
        data: |
%s
  - path: /var/lib/kubelet/config/kubelet
    permissions: 0600
    content:
      inline:
        data: |
          apiVersion: kubelet.config.k8s.io/v1beta1
          kind: KubeletConfiguration
          authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: /var/lib/kubelet/ca.crt}}
          authorization: {mode: Webhook}
          cgroupDriver: systemd
          containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
          failSwapOn: false
          maxPods: %d
          nodeStatusUpdateFrequency: 10s
  - path: /etc/cni/net.d/10-bridge.conflist
    permissions: 0644
    content:
      inline:
        data: |
          {"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "bridge", "bridge": "cni0", "isGateway": true,
           "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.85.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
%s`, p.registry.GuestAddress(), flags, indent(p.CA(), "          "), maxPods, files)
}

// put makes a Secret of kube-system what it is to be.
func (p *plant) put(name, key, value string) {
	p.Helper()
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"name": name}, "stringData": map[string]string{key: value}})
	if err != nil {
		p.Fatal(err)
	}
	var missing *cluster.StatusError
	if _, err = p.Do(http.MethodPut, secretsAPI+"/"+name, string(body)); errors.As(err, &missing) && missing.Code == http.StatusNotFound {
		_, err = p.Do(http.MethodPost, secretsAPI, string(body))
	}
	if err != nil {
		p.Fatal(err)
	}
}

// await asks the API server until right is nil.
func (p *plant) await(what, path string, right func(object map[string]any) error) {
	p.Helper()
	var err error
	for end := time.Now().Add(2 * patience); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		var text []byte
		if text, err = p.Do(http.MethodGet, path, ""); err != nil {
			continue
		}
		var object map[string]any
		if err = json.Unmarshal(text, &object); err != nil {
			continue
		}
		if err = right(object); err == nil {
			return
		}
	}
	p.Fatalf("%s: %v", what, err)
}

// condition wants one of the conditions of an object's status to be that.
func condition(kind, value string) func(map[string]any) error {
	return func(object map[string]any) error {
		status, _ := object["status"].(map[string]any)
		conditions, _ := status["conditions"].([]any)
		for _, c := range conditions {
			if c := c.(map[string]any); c["type"] == kind {
				if c["status"] == value {
					return nil
				}
				return fmt.Errorf("%s is %v: %v", kind, c["status"], c["message"])
			}
		}
		return fmt.Errorf("no condition %s", kind)
	}
}

// TestNodeOfACluster is the image in a cluster: it joins with a token, its
// kubelet comes from an image, a pod runs.
func TestNodeOfACluster(t *testing.T) {
	b := open(t)
	p := newPlant(t, b.manifest.Arch)
	p.put("token", "token", "first")
	p.put(poolSecret, "osc.yaml", p.osc(20, "", ""))
	m := b.flash(t, b.file(".raw"))
	port := freePort(t)
	m.config.Host, m.config.Forward, m.config.MemoryMB = true, map[int]int{port: 10250}, 3072
	p.Route("10.0.2.15:10250", fmt.Sprintf("127.0.0.1:%d", port))
	indented := "      " + strings.ReplaceAll(strings.TrimSpace(p.CA()), "\n", "\n      ")
	n := m.on(t, map[string]string{"loam.machine": machineYAML(b.manifest.Arch, fmt.Sprintf(
		"source:\n  cluster:\n    server: %s\n    secret: %s\n    bootstrapToken: %s\n    zone: plant-1\n    kubernetesVersion: 1.36.3\n    tokens: [{secret: token, path: /var/lib/thing/token}]\n    ca: |\n%s\n",
		p.GuestURL(), poolSecret, p.BootstrapToken(t), indented))})
	n.shell()
	p.ApproveNodeAgent(t, patience)
	n.expect(appliedLine)
	p.await("the Node is Ready", nodeAPI, condition("Ready", "True"))
	t.Logf("Ready after %s", time.Since(n.Started()))

	if _, err := p.Do(http.MethodPost, podsAPI, `{"metadata": {"name": "hello"}, "spec": {"containers": [{"name": "hello", "image": "registry.test/hello:v1"}]}}`); err != nil {
		t.Fatal(err)
	}
	p.await("the pod runs", podsAPI+"/hello", condition("Ready", "True"))
	if log, err := p.Do(http.MethodGet, podsAPI+"/hello/log", ""); err != nil || string(log) != "hello from hello\n" {
		t.Errorf("log %q %v", log, err)
	}
	n.want("cat /var/lib/thing/token", "first")
	p.put("token", "token", "second")
	n.sh("until test $(cat /var/lib/thing/token) = second; do sleep 0.2; done")
	n.proven()

	units := []string{"kubelet.service", "containerd.service"}
	before := n.invocations(units...)
	t.Run("a sysctl file restarts neither", func(t *testing.T) {
		n.t = t
		p.put(poolSecret, "osc.yaml", p.osc(20, "", file("/etc/sysctl.d/50-plant.conf", "vm.overcommit_memory = 1")))
		n.sh("until test -e /etc/sysctl.d/50-plant.conf; do sleep 0.2; done")
		n.proven()
		if after := n.invocations(units...); after[units[0]] != before[units[0]] || after[units[1]] != before[units[1]] {
			t.Errorf("restarted: %v, %v", before, after)
		}
	})
	t.Run("the kubelet's configuration restarts the kubelet", func(t *testing.T) {
		n.t = t
		p.put(poolSecret, "osc.yaml", p.osc(30, "", ""))
		n.sh("until grep -q 'maxPods: 30' /var/lib/kubelet/config/kubelet; do sleep 0.2; done")
		n.proven()
		after := n.invocations(units...)
		if after[units[0]] == before[units[0]] || after[units[1]] != before[units[1]] {
			t.Errorf("restarted: %v, %v", before, after)
		}
		before = after
	})
	t.Run("a broken flag is taken back", func(t *testing.T) {
		n.t = t
		p.put(poolSecret, "osc.yaml", p.osc(30, " --no-such-flag", ""))
		n.says(func(s status.Status) bool {
			return s.Error != nil && strings.Contains(s.Error.Problem, "was taken back")
		})
		p.await("the Node stays Ready", nodeAPI, condition("Ready", "True"))
		n.sh("systemctl is-active kubelet.service")
	})
	t.Run("a managed file that is deleted comes back", func(t *testing.T) {
		n.t = t
		n.sh("rm /etc/cni/net.d/10-bridge.conflist; sleep 10; test -e /etc/cni/net.d/10-bridge.conflist")
	})
	n.t = t
	n.off()
}

// freePort is a port of this host's loopback that nothing listens on.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
