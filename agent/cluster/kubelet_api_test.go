package cluster

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/loam-os/loam/agent/cluster/credentials"
	"github.com/loam-os/loam/agent/drain"
)

// TestAnEvictionIsTriedOnce checks that no answer is waited for: how long a drain
// waits is its own decision.
func TestAnEvictionIsTriedOnce(t *testing.T) {
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		if r.Method != http.MethodPost || r.URL.Path != "/api/v1/namespaces/a/pods/b/eviction" {
			t.Errorf("%s %s", r.Method, r.URL.Path)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Retry-After", "10")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = w.Write([]byte(`{"kind": "Status", "apiVersion": "v1", "status": "Failure",
			"message": "Cannot evict pod", "reason": "TooManyRequests", "code": 429, "details": {
			"retryAfterSeconds": 10, "causes": [{"reason": "DisruptionBudget",
			"message": "The disruption budget web is still being processed by the server."}]}}`))
	}))
	defer server.Close()

	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	k, err := newKubeletAPI(Env{Root: root}, Config{Server: server.URL},
		credentials.Credentials{}, "node-1")
	if err != nil {
		t.Fatal(err)
	}
	defer k.close()

	pod := core.Pod{ObjectMeta: meta.ObjectMeta{Namespace: "a", Name: "b", UID: "u"}}
	got := drain.TryOf(pod, k.Evict(t.Context(), &pod), noon)
	want := drain.Try{
		Again:   noon.Add(10 * time.Second),
		Problem: "The disruption budget web is still being processed by the server.",
		Budget:  "a/web",
	}
	if got != want || requests != 1 {
		t.Errorf("%+v after %d requests, want %+v", got, requests, want)
	}
}

// TestAKubeletsCertificateMustBeWhole checks that the agent's own certificate does
// not take the place of one that is damaged: its rights are others.
func TestAKubeletsCertificateMustBeWhole(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	const name = "var/lib/kubelet/pki/kubelet-client-current.pem"
	if err := root.MkdirAll("var/lib/kubelet/pki", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := root.WriteFile(name, []byte("torn"), 0o600); err != nil {
		t.Fatal(err)
	}

	_, err = newKubeletAPI(Env{Root: root}, Config{}, credentials.Credentials{}, "node-1")
	if err == nil || !strings.Contains(err.Error(), "the kubelet's certificate") {
		t.Errorf("%v", err)
	}
}
