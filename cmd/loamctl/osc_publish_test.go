package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/osc"
	"github.com/loam-os/loam/test/cluster"
)

const edgePath = "/api/v1/namespaces/kube-system/secrets/edge-1"

// loamctl runs the command and returns what it prints.
func loamctl(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := root()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	err := cmd.ExecuteContext(t.Context())

	return out.String(), err
}

// kubeconfigFile is a file with that text.
func kubeconfigFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// pool is a directory with a configuration whose only file has that text.
func pool(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "files/etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "files/etc/word"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}

	return dir
}

// edge is the Secret that the API server has.
type edge struct {
	Metadata struct {
		Labels, Annotations map[string]string
	}
	Data map[string][]byte
}

func edgeOf(t *testing.T, c *cluster.Cluster) edge {
	t.Helper()
	answer, err := c.Do(http.MethodGet, edgePath, "")
	if err != nil {
		t.Fatal(err)
	}

	var e edge
	if err := json.Unmarshal(answer, &e); err != nil {
		t.Fatal(err)
	}

	return e
}

// word is what the configuration in the Secret says.
func (e edge) word(t *testing.T) string {
	t.Helper()
	asked, err := osc.Decode("osc.yaml", e.Data["osc.yaml"])
	if err != nil || len(asked.Spec.Files) != 1 {
		t.Fatalf("%v: %q", err, e.Data["osc.yaml"])
	}
	return *asked.Spec.Files[0].Content.Inline.Data
}

func TestPublishToARealAPIServer(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	t.Setenv("KUBECONFIG", kubeconfigFile(t, c.Admin(t)))
	publish := func(dir string, more ...string) (result, was, is string) {
		t.Helper()
		out, err := loamctl(t,
			append([]string{"osc", "publish", dir, "--name", "edge-1", "--pool", "edge"},
				more...)...)
		if err != nil {
			t.Fatal(err)
		}

		words := strings.Fields(out)
		if len(words) != 6 {
			t.Fatalf("printed %q", out)
		}

		return words[0], words[3], words[5]
	}

	one := pool(t, "one")
	two := pool(t, "two")

	result, was, first := publish(one)
	if result != "created" || was != "none" {
		t.Errorf("the first time: %s, was %s", result, was)
	}

	want := edge{Data: map[string][]byte{"osc.yaml": edgeOf(t, c).Data["osc.yaml"]}}
	want.Metadata.Labels = map[string]string{
		"gardener.cloud/role":        "operating-system-config",
		"worker.gardener.cloud/pool": "edge",
	}

	want.Metadata.Annotations = map[string]string{"checksum/data-script": first}
	if diff := cmp.Diff(want, edgeOf(t, c)); diff != "" {
		t.Errorf("the Secret (-want +got):\n%s", diff)
	}
	if result, was, is := publish(one); result != "unchanged" || was != first || is != first {
		t.Errorf("the same again: %s, was %s, is %s", result, was, is)
	}

	out, err := loamctl(t, "osc", "publish", one, "--name", "edge-1", "--pool", "edge", "-o", "json")
	wantJSON := fmt.Sprintf(`{
  "result": "unchanged",
  "namespace": "kube-system",
  "name": "edge-1",
  "before": %q,
  "checksum": %q
}
`, first, first)
	if err != nil || out != wantJSON {
		t.Errorf("as JSON: %s, %v, want %s", out, err, wantJSON)
	}

	if _, err := c.Do(http.MethodPatch, edgePath,
		`{"metadata": {"annotations": {"note": "kept"}}}`); err != nil {
		t.Fatal(err)
	}

	result, was, second := publish(two, "--serial")
	if result != "updated" || was != first || second == first {
		t.Errorf("another: %s, was %s, is %s", result, was, second)
	}

	got := edgeOf(t, c)
	if got.word(t) != "two" || got.Metadata.Annotations["note"] != "kept" ||
		got.Metadata.Annotations["reconciliation.osc.node-agent.gardener.cloud/serial"] != "true" {
		t.Errorf("the Secret: %+v", got)
	}

	t.Run("several at once", func(t *testing.T) {
		words := []string{"a", "b", "c", "d"}
		var all sync.WaitGroup
		for _, word := range words {
			dir := pool(t, word)
			all.Go(func() {
				_, err := loamctl(t, "osc", "publish", dir, "--name", "edge-1", "--pool", "edge")
				if err != nil {
					t.Error(err)
				}
			})
		}

		all.Wait()
		if got := edgeOf(t, c).word(t); !strings.Contains("abcd", got) {
			t.Errorf("the Secret says %q", got)
		}
	})

	t.Run("one who may not", func(t *testing.T) {
		_, err := loamctl(t, "osc", "publish", one, "--name", "edge-1", "--pool", "edge",
			"--kubeconfig", kubeconfigFile(t, c.Kubeconfig(t, "nobody")))
		if err == nil ||
			!strings.Contains(err.Error(),
				`publish Secret kube-system/edge-1: secrets "edge-1" is forbidden: User "nobody" cannot get`) {
			t.Errorf("error %v", err)
		}
	})

	t.Run("a name that no node reads", func(t *testing.T) {
		args := []string{"osc", "publish", one, "--name", "edge-l", "--pool", "edge"}
		_, err := loamctl(t, args...)
		if err == nil || !strings.Contains(err.Error(), "no node reads it: nodes read edge-1") {
			t.Errorf("error %v", err)
		}
		if _, err := loamctl(t, append(args, "--new")...); err != nil {
			t.Error(err)
		}
	})

	t.Run("what is wrong is not published", func(t *testing.T) {
		before := edgeOf(t, c)
		dir := pool(t, "x")
		if err := os.Mkdir(filepath.Join(dir, "unit"), 0o755); err != nil {
			t.Fatal(err)
		}

		_, err := loamctl(t, "osc", "publish", dir, "--name", "edge-1", "--pool", "edge")
		if err == nil {
			t.Error("published")
		}

		if diff := cmp.Diff(before, edgeOf(t, c)); diff != "" {
			t.Errorf("the Secret (-before +after):\n%s", diff)
		}
	})

	t.Run("no API server", func(t *testing.T) {
		c.StopAPI(t)
		_, err := loamctl(t, "osc", "publish", one, "--name", "edge-1", "--pool", "edge")
		if err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("error %v", err)
		}
	})
}
