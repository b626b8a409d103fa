package recorded

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	agent "github.com/loam-os/loam/agent/cluster"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/test/cluster"
)

const (
	secretName = "gardener-node-agent-pool"
	secrets    = "/api/v1/namespaces/kube-system/secrets"
	leases     = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/"
	nodes      = "/api/v1/nodes"
)

// world is a real control plane and one recorded node of it.
type world struct {
	testing.TB
	*cluster.Cluster
	node *Node
	// ahead is how far the clock of nodes is, serial that they take turns.
	ahead  atomic.Int64
	serial bool
	// systemd is that of the node, which outlives agents.
	systemd *Systemd
	// stop ends the node.
	stop func()
}

// osc is a configuration with one unit and one file that says text.
func osc(text string) string {
	return "apiVersion: extensions.gardener.cloud/v1alpha1\nkind: OperatingSystemConfig\nspec:\n  units:\n  - name: a.service\n    content: |\n      [Service]\n      ExecStart=sleep infinity\n" +
		"      [Install]\n      WantedBy=multi-user.target\n    filePaths: [/etc/a]\n  files:\n  - path: /etc/a\n    content: {inline: {data: " + text + "}}\n"
}

func sum(text string) string {
	s := sha256.Sum256([]byte(text))
	return hex.EncodeToString(s[:])
}

func newWorld(t testing.TB, options cluster.Options) *world {
	w := &world{TB: t, systemd: &Systemd{}, Cluster: cluster.Start(t, options)}
	w.AllowNodeAgents(t, "node-1")
	return w
}

// must does a request that has to succeed.
func (w *world) must(method, path, body string) map[string]any {
	w.Helper()
	text, err := w.Do(method, path, body)
	if err != nil {
		w.Fatal(err)
	}
	var object map[string]any
	if err := json.Unmarshal(text, &object); err != nil {
		w.Fatal(err)
	}
	return object
}

// config is how the node reaches the cluster.
func (w *world) config() agent.Config {
	return agent.Config{
		Server: w.URL(), CA: []byte(w.CA()), SecretName: secretName, Machine: "machine-1", Hostname: "Host-1", Zone: "zone-1", KubernetesVersion: "1.36.3",
		Tokens: []agent.Token{{Secret: "token", Path: "/var/lib/thing/token"}},
	}
}

// start runs the node on dir.
func (w *world) start(dir, token string) { w.Helper(); w.startWith(dir, token, w.systemd, 0) }

func (w *world) startWith(dir, token string, systemd *Systemd, steady time.Duration) {
	w.Helper()
	n, err := New(dir, w.config(), token, systemd, steady, logger())
	if err != nil {
		w.Fatal(err)
	}
	n.Cluster.Now = func() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- n.Run(ctx) }()
	w.node = n
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := errors.Join(<-over, n.Close()); err != nil {
			w.Error(err)
		}
	})
	w.Cleanup(w.stop)
}

// await waits until right is nil.
func (w *world) await(what string, right func() error) {
	w.Helper()
	var err error
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if err = right(); err == nil {
			return
		}
	}
	w.Fatalf("%s: %v", what, err)
}

// put makes the Secret what data says.
func (w *world) put(name string, data map[string]string) {
	w.Helper()
	encoded := map[string]string{}
	for key, value := range data {
		encoded[key] = base64.StdEncoding.EncodeToString([]byte(value))
	}
	meta := map[string]any{"name": name}
	if w.serial {
		meta["annotations"] = map[string]any{"reconciliation.osc.node-agent.gardener.cloud/serial": "true"}
	}
	body, err := json.Marshal(map[string]any{"metadata": meta, "data": encoded})
	if err != nil {
		w.Fatal(err)
	}
	var missing *cluster.StatusError
	if _, err := w.Do("PUT", secrets+"/"+name, string(body)); errors.As(err, &missing) && missing.Code == http.StatusNotFound {
		w.must("POST", secrets, string(body))
	} else if err != nil {
		w.Fatal(err)
	}
}

// file waits until a file of the node says text.
func (w *world) file(name, text string) {
	w.Helper()
	w.await(name, func() error {
		if strings.HasPrefix(name, "etc/") {
			name = filepath.Join("var/lib/loam/os/1.0.0/current/root", name)
		}
		have, err := os.ReadFile(filepath.Join(w.node.Dir, name))
		if err == nil && string(have) != text {
			err = fmt.Errorf("says %q, not %q", have, text)
		}
		return err
	})
}

// status is what the node says of itself.
func (w *world) status() (status.Status, error) {
	text, err := os.ReadFile(filepath.Join(w.node.Dir, status.Path))
	if err != nil {
		return status.Status{}, err
	}
	return status.Parse(text)
}

// write puts a file on the node.
func (w *world) write(name, text string) {
	w.Helper()
	name = filepath.Join(w.node.Dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o600)); err != nil {
		w.Fatal(err)
	}
}

func (w *world) addNode() {
	w.Helper()
	w.must("POST", nodes, `{"metadata": {"name": "node-1", "labels": {"kubernetes.io/hostname": "host-1"}}}`)
}

// annotated waits until the Node says that it runs this configuration.
func (w *world) annotated(text string) {
	w.Helper()
	w.await("the Node's annotation", func() error {
		var n struct {
			Metadata struct{ Annotations map[string]string }
		}
		body, err := w.Do("GET", nodes+"/node-1", "")
		if err == nil {
			err = json.Unmarshal(body, &n)
		}
		if got := n.Metadata.Annotations["checksum/cloud-config-data"]; err == nil && got != sum(text) {
			err = fmt.Errorf("%q", got)
		}
		return err
	})
}

func (w *world) approve() { w.Helper(); w.ApproveNodeAgent(w.TB, 20*time.Second) }

// logger says what nodes do if LOAM_LOG is set.
func logger() *zap.Logger {
	if os.Getenv("LOAM_LOG") == "" {
		return zap.NewNop()
	}
	return zap.Must(zap.NewDevelopment())
}
