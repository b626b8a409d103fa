package cluster

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

const (
	rbacPath = "/apis/rbac.authorization.k8s.io/v1"
	csrPath  = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
)

// AllowNodeAgents lets the agent of a Node do what examples/cluster/rbac.yaml does, and no
// more.
func (c *Cluster) AllowNodeAgents(t testing.TB, node string) {
	t.Helper()
	text, err := os.ReadFile("../../examples/cluster/rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for object := range strings.SplitSeq(strings.ReplaceAll(string(text), "node-1", node), "\n---\n") {
		body, err := yaml.YAMLToJSON([]byte(object))
		if err != nil {
			t.Fatal(err)
		}
		var kind struct {
			Kind     string
			Metadata struct{ Namespace string }
		}
		if err := json.Unmarshal(body, &kind); err != nil {
			t.Fatal(err)
		}
		at := rbacPath
		if kind.Metadata.Namespace != "" {
			at += "/namespaces/" + kind.Metadata.Namespace
		}
		c.mustDo(t, http.MethodPost, at+"/"+strings.ToLower(kind.Kind)+"s", string(body))
	}
}

// ApproveNodeAgent plays Gardener's approver: it waits for the request of a node
// agent for a certificate and approves it.
func (c *Cluster) ApproveNodeAgent(t testing.TB, patience time.Duration) {
	t.Helper()
	err := errors.New("not asked")
	for end := time.Now().Add(patience); err != nil && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		err = c.approveOne()
	}
	if err != nil {
		t.Fatalf("a node agent's certificate request: %v", err)
	}
}

func (c *Cluster) approveOne() error {
	text, err := c.Do(http.MethodGet, csrPath, "")
	if err != nil {
		return err
	}
	var all struct{ Items []map[string]any }
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	for _, csr := range all.Items {
		name := csr["metadata"].(map[string]any)["name"].(string)
		if status, _ := csr["status"].(map[string]any); !strings.HasPrefix(name, "node-agent-csr-") || status["conditions"] != nil {
			continue
		}
		csr["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Approved", "status": "True", "reason": "Test", "message": "test"}}}
		body, err := json.Marshal(csr)
		if err == nil {
			_, err = c.Do(http.MethodPut, csrPath+"/"+name+"/approval", string(body))
		}
		return err
	}
	return errors.New("none to approve")
}
