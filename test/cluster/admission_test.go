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
	for _, example := range []string{"rbac.yaml", "admission.yaml"} {
		c.create(t, example)
	}

	const (
		nodes  = "/api/v1/nodes"
		pods   = "/api/v1/namespaces/kube-system/pods"
		leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
		turns  = leases + "/loam-rollout-pool"
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
	ledger := func(state, target string, turns ...string) string {
		text := fmt.Sprintf(`{"metadata": {"name": "loam-rollout-pool", "annotations": {
			"rollout.loam.dev/state": %q, "rollout.loam.dev/target": %q`, state, target)
		for _, turn := range turns {
			text += fmt.Sprintf(`, %q: "{}"`, turn)
		}
		return text + `}}, "spec": {"holderIdentity": "running"}}`
	}
	withSystem := func(ledger, halted string) string {
		return strings.Replace(ledger, `"annotations": {`, fmt.Sprintf(
			`"annotations": {"system.loam.dev/1": %q, `, strings.ReplaceAll(`{"revision": 1`+halted+`}`, ": ", ":")), 1)
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
			"its own Lease",
			http.MethodPut,
			leases + "/gardener-node-agent-node-1",
			lease("gardener-node-agent-node-1", "gardener-node-agent-node-1", "node-1"),
			false,
		},
		{
			"another node's Lease, without its owner",
			http.MethodPut,
			leases + "/gardener-node-agent-node-2",
			lease("gardener-node-agent-node-2", "node-1", ""),
			true,
		},
		{
			"the turn of another node, given back",
			http.MethodPut,
			leases + "/gardener-node-agent-pool",
			lease("gardener-node-agent-pool", "", ""),
			true,
		},
		{
			"a turn for a third node",
			http.MethodPut,
			leases + "/gardener-node-agent-pool",
			lease("gardener-node-agent-pool", "node-3", ""),
			true,
		},
		{
			"a turn for itself",
			http.MethodPut,
			leases + "/gardener-node-agent-pool",
			lease("gardener-node-agent-pool", "node-1", ""),
			false,
		},
		{
			"its turn, given back",
			http.MethodPut,
			leases + "/gardener-node-agent-pool",
			lease("gardener-node-agent-pool", "", ""),
			false,
		},
		{
			"a ledger that is not restored yet, with a turn",
			http.MethodPost,
			leases,
			ledger("restoring", "", "holder.loam.dev/node-1"),
			true,
		},
		{"a ledger that runs at once", http.MethodPost, leases, ledger("running", ""), true},
		{"a ledger", http.MethodPost, leases, ledger("restoring", ""), false},
		{
			"turns that are restored",
			http.MethodPut,
			turns,
			ledger("running", "", "restored.loam.dev/node-1", "restored.loam.dev/node-2"),
			false,
		},
		{
			"its turn in the ledger, in place of the restored one",
			http.MethodPut,
			turns,
			ledger("running", "a", "holder.loam.dev/node-1", "restored.loam.dev/node-2"),
			false,
		},
		{
			"a turn in the ledger for another node",
			http.MethodPut,
			turns,
			ledger("running", "a", "holder.loam.dev/node-1", "holder.loam.dev/node-2",
				"restored.loam.dev/node-2"),
			true,
		},
		{
			"the turn of another node in the ledger, given",
			http.MethodPut,
			turns,
			ledger("running", "a", "holder.loam.dev/node-1"),
			true,
		},
		{
			"turns that are restored a second time",
			http.MethodPut,
			turns,
			ledger("restoring", "a", "holder.loam.dev/node-1", "restored.loam.dev/node-2"),
			true,
		},
		{
			"a pause",
			http.MethodPut,
			turns,
			ledger("paused", "a", "holder.loam.dev/node-1", "restored.loam.dev/node-2"),
			true,
		},
		{
			"its failure, which halts the rollout",
			http.MethodPut,
			turns,
			ledger("halted", "a", "restored.loam.dev/node-2"),
			false,
		},
		{
			"a rollout that is halted, resumed",
			http.MethodPut,
			turns,
			ledger("running", "a", "restored.loam.dev/node-2"),
			true,
		},
		{
			"a rollout that is halted, to another target",
			http.MethodPut,
			turns,
			ledger("running", "b", "restored.loam.dev/node-2"),
			false,
		},
		{
			"its failure, which halts the rollout of a system",
			http.MethodPut,
			turns,
			withSystem(ledger("running", "b", "restored.loam.dev/node-2"), `, "halted": "a"`),
			false,
		},
		{
			"leave to change more nodes at once",
			http.MethodPut,
			turns,
			strings.Replace(withSystem(ledger("running", "b", "restored.loam.dev/node-2"),
				`, "halted": "a"`), `"annotations": {`,
				`"annotations": {"rollout.loam.dev/now": "{}", `, 1),
			true,
		},
		{
			"a system that is halted, resumed",
			http.MethodPut,
			turns,
			withSystem(ledger("running", "b", "restored.loam.dev/node-2"), ""),
			true,
		},
		{
			"a system that is halted, forgotten",
			http.MethodPut,
			turns,
			ledger("running", "b", "restored.loam.dev/node-2"),
			true,
		},
		{
			"the pin of its own Node",
			http.MethodPatch,
			nodes + "/node-1",
			`{"metadata": {"labels": {"loam.dev/pinned": "a"}}}`,
			true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := ask(test.method, test.path, test.body)
			if refused(err) != test.refused || err != nil && !test.refused {
				t.Errorf("%v", err)
			}
		})
	}

	t.Run("no pods", func(t *testing.T) {
		for _, path := range []string{pods, pods + "?fieldSelector=spec.nodeName%3Dnode-1"} {
			if err := ask(http.MethodGet, path, ""); err == nil {
				t.Errorf("%s: an agent has rights over pods", path)
			}
		}
		if err := ask(http.MethodDelete, pods+"/of-node-1", ""); err == nil {
			t.Error("an agent may delete pods")
		}
	})

	// What a drain does is not in the examples: each kubelet may do it.
	kubelet := func(method, path, body string) error {
		header := http.Header{
			"Impersonate-User":  {"system:node:node-1"},
			"Impersonate-Group": {"system:nodes"},
		}
		_, err := c.ask(c.admin, method, path, body, header)
		return err
	}
	const (
		cordon  = `{"metadata": {"annotations": {"loam.dev/drain": "{}"}}, "spec": {"unschedulable": true}}`
		drained = `{"status": {"conditions": [{"type": "Drained", "status": "True"}]}}`
		own     = "?fieldSelector=spec.nodeName%3Dnode-1"
		others  = "?fieldSelector=spec.nodeName%3Dnode-2"
	)
	eviction := func(pod string) string {
		return `{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "` + pod +
			`", "namespace": "kube-system"}}`
	}
	for _, test := range []struct {
		name, method, path, body string
		refused                  bool
	}{
		{"reads its Node", http.MethodGet, nodes + "/node-1", "", false},
		{"cordons its Node", http.MethodPatch, nodes + "/node-1", cordon, false},
		{"cordons another Node", http.MethodPatch, nodes + "/node-2", cordon, true},
		{"reports on its Node", http.MethodPatch, nodes + "/node-1/status", drained, false},
		{"lists its pods", http.MethodGet, "/api/v1/pods" + own, "", false},
		{"lists the pods of another Node", http.MethodGet, "/api/v1/pods" + others, "", true},
		{"lists all pods", http.MethodGet, "/api/v1/pods", "", true},
		{
			"reads budgets",
			http.MethodGet,
			"/apis/policy/v1/namespaces/kube-system/poddisruptionbudgets",
			"",
			true,
		},
		{
			"evicts another node's pod",
			http.MethodPost,
			pods + "/of-node-2/eviction",
			eviction("of-node-2"),
			true,
		},
		{
			"evicts its pod",
			http.MethodPost,
			pods + "/of-node-1/eviction",
			eviction("of-node-1"),
			false,
		},
		{"deletes another node's pod", http.MethodDelete, pods + "/of-node-2", "", true},
		{"deletes its pod", http.MethodDelete, pods + "/of-node-1", "", false},
	} {
		t.Run("a kubelet "+test.name, func(t *testing.T) {
			err := kubelet(test.method, test.path, test.body)
			if (err != nil) != test.refused {
				t.Errorf("%v", err)
			}
		})
	}
}
