package recorded

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/turns"
	"github.com/loam-os/loam/test/cluster"
)

const (
	// statusNodes is how many Nodes the pool has, statusTurns how many of them have a
	// turn, and statusImages how many images each has.
	statusNodes  = 5000
	statusTurns  = 250
	statusImages = 20
)

// BenchmarkRolloutStatus is `loamctl rollout status` of a pool in a rollout: the whole
// program, from its start to its end, and what the API server sends it. Node objects are
// as large as those of busy nodes.
func BenchmarkRolloutStatus(b *testing.B) {
	c := cluster.Start(b, cluster.Options{})
	now := time.Now()
	names := createNodes(b, c)
	createLedger(b, c, names, now)

	loamctl := filepath.Join(b.TempDir(), "loamctl")
	out, err := exec.CommandContext(b.Context(), "go", "build", "-o", loamctl, "../../cmd/loamctl").
		CombinedOutput()
	if err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	proxy := &counted{sizes: map[string]int{}}
	kubeconfig := proxy.start(b, c)

	b.Run("status", func(b *testing.B) {
		clear(proxy.sizes)
		var times []time.Duration
		for range b.N {
			start := time.Now()
			cmd := exec.CommandContext(b.Context(), loamctl, "rollout", "status", "pool",
				"--kubeconfig", kubeconfig, "-o", "json")
			out, err := cmd.CombinedOutput()
			times = append(times, time.Since(start))

			var report struct {
				Nodes       int
				Turns, Away []any
			}
			if err == nil {
				err = json.Unmarshal(out, &report)
			}
			if err != nil || report.Nodes != statusNodes || len(report.Turns) != statusTurns {
				b.Fatalf("%d Nodes, %d turns: %v\n%.500s", report.Nodes, len(report.Turns), err, out)
			}
		}
		slices.Sort(times)
		b.ReportMetric(float64(times[len(times)/2].Milliseconds()), "p50-ms")
		b.ReportMetric(float64(times[0].Milliseconds()), "min-ms")
		b.ReportMetric(float64(times[len(times)-1].Milliseconds()), "max-ms")
		for what, size := range proxy.sizes {
			b.ReportMetric(float64(size)/1000/float64(b.N), what+"-kB")
		}
	})
}

// createNodes creates the Nodes of the pool and returns their names.
func createNodes(b *testing.B, c *cluster.Cluster) []string {
	b.Helper()
	var images []map[string]any
	for i := range statusImages {
		images = append(images, map[string]any{
			"names": []string{
				fmt.Sprintf("registry.example.com/team-%d/service@sha256:%064x", i, i),
				fmt.Sprintf("registry.example.com/team-%d/service:v1.%d.0", i, i),
			},
			"sizeBytes": 50_000_000 + i,
		})
	}

	var names []string
	for i := range statusNodes {
		names = append(names, fmt.Sprintf("shoot--plant--edge-pool-z%d-5f6b9-%05x", i%3+1, i*7919%(1<<20)))
	}
	errs := make([]error, len(names))
	busy := make(chan struct{}, 16)
	var group sync.WaitGroup
	for i, name := range names {
		busy <- struct{}{}
		group.Go(func() {
			defer func() { <-busy }()
			node := map[string]any{
				"metadata": map[string]any{"name": name},
				"spec":     map[string]any{"unschedulable": i < statusTurns},
				"status": map[string]any{
					"images":     images,
					"conditions": []map[string]any{{"type": "Ready", "status": "True"}},
					"nodeInfo": map[string]any{
						"kubeletVersion":          "v1.36.3",
						"osImage":                 "Loam 0.1.0",
						"kernelVersion":           "6.12.57",
						"containerRuntimeVersion": "containerd://2.2.0",
					},
				},
			}
			text, _ := json.Marshal(node) // Texts and numbers only.
			_, errs[i] = c.Do(http.MethodPost, nodes, string(text))
		})
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			b.Fatal(err)
		}
	}
	return names
}

// createLedger creates a ledger as nodes write it, in which the first of the Nodes have turns.
func createLedger(b *testing.B, c *cluster.Cluster, names []string, now time.Time) {
	b.Helper()
	l := turns.New()
	l.State = turns.Running
	l.Target = strings.Repeat("0123abcd", 8)
	l.Begun = now.Add(-2 * time.Minute)
	l.Done = 1204
	l.Size = statusNodes
	for i, name := range names[:statusTurns] {
		l.Holders[name] = turns.Holder{
			ID:      fmt.Sprintf("%026X", i),
			Machine: name,
			Node:    name,
			UID:     fmt.Sprintf("8563530b-8af5-427a-9b99-%012x", i),
			Target:  l.Target,
			Class:   turns.Kubelet,
			Zone:    fmt.Sprintf("zone-%d", i%3+1),
			Since:   now,
		}
	}
	text, _ := json.Marshal(map[string]any{"metadata": map[string]any{
		"name":        "loam-rollout-pool",
		"annotations": l.Annotations(nil),
	}})
	for _, request := range [][3]string{
		{http.MethodPost, strings.TrimSuffix(leases, "/"), string(text)},
		{http.MethodPatch, ledgerLease, `{"metadata": {"managedFields": [{}]}}`},
	} {
		if _, err := c.Do(request[0], request[1], request[2]); err != nil {
			b.Fatal(err)
		}
	}
}

// counted counts the bytes of answers, as the API server compresses them.
type counted struct {
	mu    sync.Mutex
	sizes map[string]int
}

// start serves a proxy before the API server, and returns a kubeconfig for it.
func (p *counted) start(b *testing.B, c *cluster.Cluster) string {
	b.Helper()
	target, err := url.Parse(c.URL())
	if err != nil {
		b.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport = c.AdminClient().Transport
	proxy.ModifyResponse = func(r *http.Response) error {
		what := "ledger"
		switch {
		case r.Request.URL.Query().Has("labelSelector"):
			what = "pinned"
		case r.Request.URL.Path == nodes:
			what = "nodes"
		}
		r.Body = counter{r.Body, func(n int) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.sizes[what] += n
		}}
		return nil
	}
	server := httptest.NewTLSServer(proxy)
	b.Cleanup(server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})

	name := filepath.Join(b.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "a",
		"clusters": [{"name": "a", "cluster": {
			"server": %q, "certificate-authority-data": %q}}],
		"contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
		"users": [{"name": "a", "user": {}}]}`,
		server.URL, base64.StdEncoding.EncodeToString(authority))
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	return name
}

// counter is a body whose bytes are counted.
type counter struct {
	io.ReadCloser
	count func(n int)
}

func (c counter) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.count(n)
	return n, err
}
