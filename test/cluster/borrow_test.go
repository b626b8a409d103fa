package cluster

import (
	"net/http"
	"regexp"
	"testing"
)

// leftByTests is the name of an object that the first test has made.
var leftByTests = regexp.MustCompile(`"name":"(a|node-1|loam-[^"]*|bootstrap-token-[^"]*)"`)

// TestALentControlPlaneIsAsNew has tests make one object of each kind that they may leave,
// one after the other.
func TestALentControlPlaneIsAsNew(t *testing.T) {
	var l Lender
	defer l.Close()

	var first *Cluster
	t.Run("a test that leaves much", func(t *testing.T) {
		c := l.Borrow(t, Options{Controllers: true})
		first = c
		c.AllowNodeAgents(t, "node-1")
		if err := c.RestrictAgents(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.BootstrapToken(t)
		for path, object := range map[string]string{
			"/api/v1/nodes":                                              `{"metadata": {"name": "node-1"}}`,
			"/api/v1/namespaces/default/pods":                            `{"metadata": {"name": "a"}, "spec": {"nodeName": "node-1", "containers": [{"name": "a", "image": "a"}]}}`,
			"/api/v1/namespaces/default/events":                          `{"metadata": {"name": "a"}, "involvedObject": {"kind": "Node", "name": "node-1"}}`,
			"/api/v1/namespaces/default/secrets":                         `{"metadata": {"name": "a"}}`,
			"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases": `{"metadata": {"name": "a"}}`,
		} {
			if _, err := c.Do(http.MethodPost, path, object); err != nil {
				t.Error(err)
			}
		}
	})

	t.Run("the next test finds nothing", func(t *testing.T) {
		c := l.Borrow(t, Options{Controllers: true})
		if c != first {
			t.Error("it has another control plane")
		}
		for _, path := range []string{
			"/api/v1/nodes", "/api/v1/pods", "/api/v1/events", "/api/v1/secrets",
			"/apis/coordination.k8s.io/v1/leases", rbacPath + "clusterroles", rbacPath + "rolebindings",
			admissionPath + "validatingadmissionpolicies",
		} {
			for _, query := range []string{"", "?resourceVersion=0"} {
				text, err := c.Do(http.MethodGet, path+query, "")
				if left := leftByTests.Find(text); left != nil || err != nil {
					t.Errorf("%s%s: %s, %v", path, query, left, err)
				}
			}
		}
		c.AllowNodeAgents(t, "node-1")
		if _, err := c.Do(http.MethodPost, "/api/v1/namespaces/default/configmaps",
			`{"metadata": {"name": "a"}}`); err != nil {
			t.Error(err)
		}
	})

	t.Run("what Borrow cannot remove has an end", func(t *testing.T) {
		if l.Borrow(t, Options{Controllers: true}) == first {
			t.Error("the control plane with a ConfigMap is used again")
		}
	})
}
