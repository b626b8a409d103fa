package cluster

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// create makes the objects of an example.
func (c *Cluster) create(t *testing.T, example string) {
	t.Helper()
	text, err := os.ReadFile("../../examples/cluster/" + example)
	if err != nil {
		t.Fatal(err)
	}

	for object := range strings.SplitSeq(string(text), "\n---\n") {
		body, err := yaml.YAMLToJSON([]byte(object))
		if err != nil {
			t.Fatal(err)
		}

		var head struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal([]byte(object), &head); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(head.APIVersion, "rbac") {
			err = c.createRBAC(body)
		} else {
			plural := strings.Replace(strings.ToLower(head.Kind)+"s", "policys", "policies", 1)
			_, err = c.Do(http.MethodPost, "/apis/"+head.APIVersion+"/"+plural, string(body))
		}
		if err != nil {
			t.Fatalf("%s: %v", example, err)
		}
	}
}

// TestANodeChangesNoNeighbour has a real API server judge what the examples
// allow an agent, beside what RBAC alone would.
func TestANodeChangesNoNeighbour(t *testing.T) {
	c := Start(t, Options{})
	for _, example := range []string{"rbac.yaml", "rbac-pods.yaml", "admission.yaml"} {
		c.create(t, example)
	}

	const (
		nodes  = "/api/v1/nodes"
		pods   = "/api/v1/namespaces/kube-system/pods"
		leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
	)
	lease := func(name, holder, owner string) string {
		text := fmt.Sprintf(`{"metadata": {"name": %q}, "spec": {"holderIdentity": %q}}`, name,
			holder)
		if owner != "" {
			text = strings.Replace(text, `"}, `, fmt.Sprintf(
				`", "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": %q, "uid": "1"}]}, `,
				owner), 1)
		}
		return text
	}
	c.mustDo(t, http.MethodPost, "/api/v1/namespaces/kube-system/serviceaccounts",
		`{"metadata": {"name": "default"}}`)
	for _, name := range []string{"node-1", "node-2"} {
		c.mustDo(t, http.MethodPost, nodes, `{"metadata": {"name": "`+name+`"}}`)
		c.mustDo(t, http.MethodPost, pods, `{"metadata": {"name": "of-`+name+`"}, "spec": {"nodeName": "`+
			name+`", "containers": [{"name": "a", "image": "a"}]}}`)
		c.mustDo(t, http.MethodPost, leases,
			lease("gardener-node-agent-"+name, "gardener-node-agent-"+name, name))
	}
	c.mustDo(t, http.MethodPost, leases, lease("gardener-node-agent-pool", "node-2", ""))

	// ask makes a request as the agent of node-1. An update must be based on
	// the newest version.
	ask := func(method, path, body string) error {
		if method == http.MethodPut {
			var now struct {
				Metadata struct{ ResourceVersion string }
			}
			get(t, c, path, &now)
			body = strings.Replace(body, `{"metadata": {`, fmt.Sprintf(
				`{"metadata": {"resourceVersion": %q, `, now.Metadata.ResourceVersion), 1)
		}

		header := http.Header{"Impersonate-User": {"gardener.cloud:node-agent:machine:node-1"}}
		_, err := c.ask(c.admin, method, path, body, header)
		return err
	}
	refused := func(err error) bool {
		return err != nil && strings.Contains(err.Error(), "ValidatingAdmissionPolicy")
	}

	const taint = `{"spec": {"taints": []}}`
	c.mustAwait(t, func() error { // The API server learns of a policy by a watch.
		for _, try := range [][3]string{
			{http.MethodPatch, nodes + "/node-2", taint},
			{http.MethodPut, leases + "/gardener-node-agent-node-2",
				lease("gardener-node-agent-node-2", "x", "node-2")},
			{http.MethodDelete, pods + "/of-node-2?dryRun=All", ""},
		} {
			if err := ask(try[0], try[1], try[2]); !refused(err) {
				return fmt.Errorf("%s %s: %w", try[0], try[1],
					errors.Join(err, errors.New("not refused")))
			}
		}
		return nil
	})

	const ready = `{"status": {"conditions": [{"type": "Loam", "status": "True"}]}}`
	for _, test := range []struct {
		name, method, path, body string
		refused                  bool
	}{
		{
			"its own Node",
			http.MethodPatch,
			nodes + "/node-1",
			`{"metadata": {"labels": {"a": "b"}}}`,
			false,
		},
		{"the status of its own Node", http.MethodPatch, nodes + "/node-1/status", ready, false},
		{
			"another Node",
			http.MethodPatch,
			nodes + "/node-2",
			`{"metadata": {"labels": {"a": "b"}}}`,
			true,
		},
		{"the taints of another Node", http.MethodPatch, nodes + "/node-2", taint, true},
		{"the status of another Node", http.MethodPatch, nodes + "/node-2/status", ready, true},
		{
			"its own Lease", http.MethodPut, leases + "/gardener-node-agent-node-1",
			lease("gardener-node-agent-node-1", "gardener-node-agent-node-1", "node-1"), false,
		},
		{
			"another node's Lease, without its owner", http.MethodPut, leases + "/gardener-node-agent-node-2",
			lease("gardener-node-agent-node-2", "node-1", ""), true,
		},
		{
			"the turn of another node, given back", http.MethodPut, leases + "/gardener-node-agent-pool",
			lease("gardener-node-agent-pool", "", ""), true,
		},
		{
			"a turn for a third node", http.MethodPut, leases + "/gardener-node-agent-pool",
			lease("gardener-node-agent-pool", "node-3", ""), true,
		},
		{
			"a turn for itself", http.MethodPut, leases + "/gardener-node-agent-pool",
			lease("gardener-node-agent-pool", "node-1", ""), false,
		},
		{
			"its turn, given back", http.MethodPut, leases + "/gardener-node-agent-pool",
			lease("gardener-node-agent-pool", "", ""), false,
		},
		{"another node's pod", http.MethodDelete, pods + "/of-node-2", "", true},
		{"its own pod", http.MethodDelete, pods + "/of-node-1", "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := ask(test.method, test.path, test.body)
			if refused(err) != test.refused || err != nil && !test.refused {
				t.Errorf("%v", err)
			}
		})
	}
}
