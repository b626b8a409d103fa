package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

const (
	rbacPath = "/apis/rbac.authorization.k8s.io/v1"
	csrPath  = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
)

// AllowNodeAgents lets the agents of these Nodes do what examples/rbac.yaml does,
// with these Secrets of kube-system, the first of which has the configuration,
// and no more.
func (c *Cluster) AllowNodeAgents(t testing.TB, nodes, secrets []string) {
	t.Helper()
	leases := []string{secrets[0]}
	for _, n := range nodes {
		leases = append(leases, "gardener-node-agent-"+n)
	}
	requests := `{"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"], "verbs": ["create", "get"]}`
	c.allow(t, "loam-pool", "Role", "gardener.cloud:node-agents", fmt.Sprintf(`[
		{"apiGroups": [""], "resources": ["secrets"], "resourceNames": %s, "verbs": ["get", "list", "watch"]},
		{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": %s, "verbs": ["get", "list", "watch", "update"]},
		{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]}]`, list(secrets), list(leases)))
	c.allow(t, "loam", "ClusterRole", "gardener.cloud:node-agents", fmt.Sprintf(`[
		{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]},
		{"apiGroups": [""], "resources": ["nodes", "nodes/status"], "resourceNames": %s, "verbs": ["get", "patch"]},
		{"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
		%s]`, list(nodes), requests))
	c.allow(t, "loam-join", "ClusterRole", AgentGroup, "["+requests+"]")
}

func list(names []string) string {
	text, _ := json.Marshal(names) // Strings only.
	return string(text)
}

// allow makes a role and gives it to a group.
func (c *Cluster) allow(t testing.TB, name, kind, group, rules string) {
	t.Helper()
	at, resource := rbacPath, strings.ToLower(kind)+"s"
	if kind == "Role" {
		at += "/namespaces/kube-system"
	}
	c.mustDo(t, http.MethodPost, at+"/"+resource, fmt.Sprintf(`{"metadata": {"name": %q}, "rules": %s}`, name, rules))
	c.mustDo(t, http.MethodPost, at+"/"+strings.TrimSuffix(resource, "s")+"bindings", fmt.Sprintf(`{"metadata": {"name": %q},
		"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": %q, "name": %q},
		"subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": %q}]}`, name, kind, name, group))
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
