package cluster

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Paths of the objects that the examples are about.
const (
	nodes    = "/api/v1/nodes"
	pods     = "/api/v1/namespaces/kube-system/pods"
	leases   = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
	poolTurn = leases + "/gardener-node-agent-pool"
)

// agent1 and kubelet1 are who node-1 is to the API server.
var (
	agent1   = http.Header{"Impersonate-User": {"gardener.cloud:node-agent:machine:node-1"}}
	kubelet1 = http.Header{
		"Impersonate-User":  {"system:node:node-1"},
		"Impersonate-Group": {"system:nodes"},
	}
)

// policed returns a cluster with the examples and the Nodes node-1 and node-2, once
// its API server knows the policies.
func policed(t *testing.T) *Cluster {
	t.Helper()
	c := Start(t, Options{})
	if err := c.createExample(t.Context(), "rbac.yaml", strings.Clone); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"node-1", "node-2"} {
		c.mustDo(t, http.MethodPost, nodes, `{"metadata": {"name": "`+name+`"}}`)
		c.mustDo(t, http.MethodPost, leases,
			lease("gardener-node-agent-"+name, "gardener-node-agent-"+name, name))
	}

	// One for each policy, which that policy alone refuses: the API server may know of the
	// others a second before. A try that is not refused yet must not leave what a later one
	// is refused for.
	const dry = "?dryRun=All"
	tries := func() error {
		for _, try := range []struct {
			policy             string
			who                http.Header
			method, path, body string
		}{
			{
				"loam-own-node",
				agent1,
				http.MethodPatch,
				nodes + "/node-2",
				`{"spec": {"taints": []}}`,
			},
			{
				"loam-own-labels",
				kubelet1,
				http.MethodPatch,
				nodes + "/node-1",
				`{"metadata": {"labels": {"a": "b"}}}`,
			},
			{
				"loam-own-lease",
				agent1,
				http.MethodPut,
				leases + "/gardener-node-agent-node-2",
				lease("gardener-node-agent-node-2", "x", "node-2"),
			},
			{
				"loam-own-turn",
				agent1,
				http.MethodPost,
				leases,
				ledgerLease("loam-rollout-pool", map[string]string{
					"rollout.loam.dev/state": "running",
					"rollout.loam.dev/done":  "1",
				}),
			},
		} {
			err := c.as(t, try.who, try.method, try.path+dry, try.body)
			if err == nil || !strings.Contains(err.Error(), refusal+" '"+try.policy+"'") {
				return fmt.Errorf("%s %s: %w", try.method, try.path,
					errors.Join(err, errors.New("not refused by "+try.policy)))
			}
		}
		return nil
	}
	if err := tries(); err == nil {
		t.Error("refused without a policy")
	}

	if err := c.RestrictAgents(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.mustAwait(t, tries) // The API server learns of a policy by a watch.
	return c
}

// as makes a request as somebody else. An update must be based on the newest
// version.
func (c *Cluster) as(t *testing.T, who http.Header, method, path, body string) error {
	t.Helper()
	if method == http.MethodPut {
		var now struct {
			Metadata struct{ ResourceVersion string }
		}
		get(t, c, path, &now)
		body = strings.Replace(body, `{"metadata": {`, fmt.Sprintf(
			`{"metadata": {"resourceVersion": %q, `, now.Metadata.ResourceVersion), 1)
	}
	_, err := c.ask(c.admin, method, path, body, who)
	return err
}

// refusal is before the name of the policy that has refused a request.
const refusal = "ValidatingAdmissionPolicy"

// refused reports whether a policy has refused a request.
func refused(err error) bool {
	return err != nil && strings.Contains(err.Error(), refusal)
}

// attempt is a request to a cluster with the policies, and whether it is refused.
type attempt struct {
	name, method, path, body string
	refused                  bool
}

// check makes the requests, one after the other.
func (c *Cluster) check(t *testing.T, who http.Header, requests []attempt) {
	t.Helper()
	for _, r := range requests {
		t.Run(r.name, func(t *testing.T) {
			err := c.as(t, who, r.method, r.path, r.body)
			if refused(err) != r.refused || (err != nil && !r.refused) {
				t.Errorf("%v", err)
			}
		})
	}
}

// lease returns a Lease of that holder, which a Node owns unless owner is "".
func lease(name, holder, owner string) string {
	text := fmt.Sprintf(`{"metadata": {"name": %q}, "spec": {"holderIdentity": %q}}`, name,
		holder)
	if owner != "" {
		text = strings.Replace(text, `"}, `, fmt.Sprintf(
			`", "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": %q, "uid": "1"}]}, `,
			owner), 1)
	}
	return text
}

// turn returns the Lease of a serial rollout that node holder has for some seconds
// from then on, as the agent writes it.
func turn(holder string, seconds int, at time.Time) string {
	stamp := at.UTC().Format("2006-01-02T15:04:05.000000Z")
	return fmt.Sprintf(`{"metadata": {"name": "gardener-node-agent-pool"}, "spec": {
		"holderIdentity": %q, "leaseDurationSeconds": %d, "acquireTime": %q, "renewTime": %q}}`,
		holder, seconds, stamp, stamp)
}

// free is the Lease of a serial rollout that no node has.
const free = `{"metadata": {"name": "gardener-node-agent-pool"}, "spec": {}}`

// TestANodeChangesNoNeighbour has a real API server judge what the examples
// allow an agent, beside what RBAC alone would.
func TestANodeChangesNoNeighbour(t *testing.T) {
	c := policed(t)
	const turns = leases + "/loam-rollout-pool"
	ledger := func(state, target string, has ...string) string {
		text := fmt.Sprintf(`{"metadata": {"name": "loam-rollout-pool", "annotations": {
			"rollout.loam.dev/state": %q, "rollout.loam.dev/target": %q`, state, target)
		for _, key := range has {
			_, machine, _ := strings.Cut(key, "/")
			text += fmt.Sprintf(`, %q: %q`, key, turnOf(machine))
		}
		return text + `}}, "spec": {"holderIdentity": "running"}}`
	}
	c.mustDo(t, http.MethodPost, "/api/v1/namespaces/kube-system/serviceaccounts",
		`{"metadata": {"name": "default"}}`)
	for _, name := range []string{"node-1", "node-2"} {
		c.mustDo(t, http.MethodPost, pods, `{"metadata": {"name": "of-`+name+`"}, "spec": {"nodeName": "`+
			name+`", "containers": [{"name": "a", "image": "a"}]}}`)
	}
	c.mustDo(t, http.MethodPost, leases, lease("gardener-node-agent-pool", "node-2", ""))

	const taint = `{"spec": {"taints": []}}`
	const ready = `{"status": {"conditions": [{"type": "Loam", "status": "True"}]}}`
	c.check(t, agent1, []attempt{
		{
			"its own Node",
			http.MethodPatch,
			nodes + "/node-1",
			`{"metadata": {"annotations": {"loam.dev/turn": "{}"}}}`,
			false,
		},
		{"the status of its own Node", http.MethodPatch, nodes + "/node-1/status", ready, false},
		{
			"another Node",
			http.MethodPatch,
			nodes + "/node-2",
			`{"metadata": {"annotations": {"loam.dev/turn": "{}"}}}`,
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
			poolTurn,
			lease("gardener-node-agent-pool", "", ""),
			true,
		},
		{
			"a turn for a third node",
			http.MethodPut,
			poolTurn,
			lease("gardener-node-agent-pool", "node-3", ""),
			true,
		},
		{
			"a turn for itself",
			http.MethodPut,
			poolTurn,
			turn("node-1", 600, time.Now()),
			false,
		},
		{
			"its turn, given back",
			http.MethodPut,
			poolTurn,
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
			ledger("running", "b", "restored.loam.dev/node-2", "halted.loam.dev/a"),
			false,
		},
	})

	t.Run("no pods", func(t *testing.T) {
		for _, path := range []string{pods, pods + "?fieldSelector=spec.nodeName%3Dnode-1"} {
			if err := c.as(t, agent1, http.MethodGet, path, ""); err == nil {
				t.Errorf("%s: an agent has rights over pods", path)
			}
		}
		if err := c.as(t, agent1, http.MethodDelete, pods+"/of-node-1", ""); err == nil {
			t.Error("an agent may delete pods")
		}
	})

	// What a drain does is not in the examples: each kubelet may do it.
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
			err := c.as(t, kubelet1, test.method, test.path, test.body)
			if (err != nil) != test.refused {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestANodeGivesItselfNoLabels has the API server judge labels and taints, of an agent
// and of a kubelet, which a node both is.
func TestANodeGivesItselfNoLabels(t *testing.T) {
	c := policed(t)
	const own = nodes + "/node-1"
	c.mustDo(t, http.MethodPatch, own, `{"metadata": {"labels": {"of-people": "a"}},
		"spec": {"taints": [{"key": "of-people", "effect": "NoSchedule"}]}}`)

	labels := func(name, labels string, refused bool) attempt {
		return attempt{
			name,
			http.MethodPatch,
			own,
			`{"metadata": {"labels": {` + labels + `}}}`,
			refused,
		}
	}
	retry := func(name, value string, refused bool) attempt {
		return attempt{
			name,
			http.MethodPatch,
			own,
			`{"metadata": {"annotations": {"loam.dev/retry": ` + value + `, "a": "b"}}}`,
			refused,
		}
	}
	const taints = `{"spec": {"taints": [{"key": "other", "effect": "NoSchedule"}]}}`

	t.Run("agent", func(t *testing.T) {
		c.check(t, agent1, []attempt{
			labels("what it reports", `"node-role.kubernetes.io/worker": "",
				"topology.kubernetes.io/zone": "a",
				"worker.gardener.cloud/kubernetes-version": "1.37.2",
				"node.machine.sapcloud.io/update-result": "successful"`, false),
			labels("another zone", `"topology.kubernetes.io/zone": "b"`, false),
			labels("any label", `"a": "b"`, true),
			labels("a pin", `"loam.dev/pinned": "a"`, true),
			labels("the first of a rollout", `"loam.dev/canary": ""`, true),
			labels("another pool", `"worker.gardener.cloud/pool": "b"`, true),
			labels("another configuration",
				`"worker.gardener.cloud/gardener-node-agent-secret-name": "ca"`, true),
			labels("a control plane", `"node-role.kubernetes.io/control-plane": ""`, true),
			labels("a label that people have set, changed", `"of-people": "b"`, true),
			labels("a label that people have set, removed", `"of-people": null`, true),
			labels("a label beside one that it reports",
				`"a": "b", "node-role.kubernetes.io/worker": ""`, true),
			{
				"a label by the status",
				http.MethodPatch,
				own + "/status",
				`{"metadata": {"labels": {"a": "b"}}}`,
				true,
			},
			{"a taint", http.MethodPatch, own, taints, true},
			{"no taints", http.MethodPatch, own, `{"spec": {"taints": []}}`, true},
			{"a cordon", http.MethodPatch, own, `{"spec": {"unschedulable": true}}`, true},
			retry("what it is to try once more", `"1234"`, true),
		})
		c.mustDo(t, http.MethodPatch, own, `{"metadata": {"annotations": {"loam.dev/retry": "1234"}}}`)
		c.check(t, agent1, []attempt{
			retry("what people let it try once more, kept", `"1234"`, false),
			retry("more of that", `"1234,5678"`, true),
			retry("what people let it try once more, removed", `null`, false),
		})
	})

	t.Run("kubelet", func(t *testing.T) {
		c.check(t, kubelet1, []attempt{
			labels("what it reports", `"kubernetes.io/hostname": "node-1",
				"kubernetes.io/arch": "amd64", "node.kubernetes.io/instance-type": "a",
				"kubelet.kubernetes.io/a": "b", "topology.kubernetes.io/region": "a"`, false),
			{
				"a cordon",
				http.MethodPatch,
				own,
				`{"metadata": {"annotations": {"loam.dev/drain": "{}"}}, "spec": {"unschedulable": true}}`,
				false,
			},
			labels("any label", `"a": "b"`, true),
			labels("a label of a domain that only looks like Kubernetes'", `"notk8s.io/a": "b"`, true),
			labels("another pool", `"worker.gardener.cloud/pool": "b"`, true),
			labels("a label that people have set, changed", `"of-people": "b"`, true),
			labels("a label that people have set, removed", `"of-people": null`, true),
			{
				"a label by the status",
				http.MethodPatch,
				own + "/status",
				`{"metadata": {"labels": {"a": "b"}}}`,
				true,
			},
		})

		for name, body := range map[string]string{
			"a control plane":      `{"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}}`,
			"a protected label":    `{"metadata": {"labels": {"node-restriction.kubernetes.io/a": ""}}}`,
			"a taint":              taints,
			"no taints":            `{"spec": {"taints": []}}`,
			"its label of a Node":  `{"metadata": {"labels": {"x.k8s.io/a": "b"}}}`,
			"a label and a cordon": `{"metadata": {"labels": {"a": "b"}}, "spec": {"unschedulable": true}}`,
		} {
			err := c.as(t, kubelet1, http.MethodPatch, own, body)
			var status *StatusError
			if !errors.As(err, &status) || status.Code/100 != 4 {
				t.Errorf("%s: %v, want a refusal", name, err)
			}
		}
	})

	t.Run("a kubelet that makes its Node", func(t *testing.T) {
		c.mustDo(t, http.MethodDelete, own, "")
		node := func(labels string) string {
			return `{"metadata": {"name": "node-1", "labels": {` + labels + `}},
				"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}`
		}
		c.check(t, kubelet1, []attempt{
			{"any label", http.MethodPost, nodes, node(`"a": "b"`), true},
			{"what it reports", http.MethodPost, nodes, node(`"kubernetes.io/os": "linux"`), false},
		})
	})
}

// TestANodeMakesItsOwnLeasesOnly has the API server judge names of Leases.
func TestANodeMakesItsOwnLeasesOnly(t *testing.T) {
	c := policed(t)
	c.mustDo(t, http.MethodDelete, leases+"/gardener-node-agent-node-1", "")
	c.mustDo(t, http.MethodDelete, leases+"/gardener-node-agent-node-2", "")
	post := func(name, lease, holder string, refused bool) attempt {
		body := strings.Replace(turn(holder, 600, time.Now()), "gardener-node-agent-pool", lease, 1)
		return attempt{name, http.MethodPost, leases, body, refused}
	}

	c.check(t, agent1, []attempt{
		post("of a component of Kubernetes", "kube-scheduler", "node-1", true),
		post("of any name", "a", "node-1", true),
		post("of another node", "gardener-node-agent-node-2", "node-1", true),
		post("of a node that there is not yet", "gardener-node-agent-node-9", "node-1", true),
		post("the ledger of another pool", "loam-rollout-other", "", true),
		post("the turn of another pool", "gardener-node-agent-other", "node-1", true),
		post("the turn of its pool for another node", "gardener-node-agent-pool", "node-2", true),
		{
			"of a name that the API server makes",
			http.MethodPost,
			leases,
			`{"metadata": {"generateName": "gardener-node-agent-"}, "spec": {}}`,
			true,
		},
		post("its own", "gardener-node-agent-node-1", "gardener-node-agent-node-1", false),
		post("the turn of its pool", "gardener-node-agent-pool", "node-1", false),
		{
			"the ledger of its pool",
			http.MethodPost,
			leases,
			`{"metadata": {"name": "loam-rollout-pool", "annotations": {"rollout.loam.dev/state": "restoring"}},
				"spec": {"holderIdentity": "restoring"}}`,
			false,
		},
	})
}

// TestAForeignTurnIsTakenAfterItsTime has the API server compare the times at which
// it has itself written a turn: those in the Lease are what a node says.
func TestAForeignTurnIsTakenAfterItsTime(t *testing.T) {
	c := policed(t)
	agent2 := http.Header{"Impersonate-User": {"gardener.cloud:node-agent:machine:node-2"}}
	put := func(name, body string, refused bool) attempt {
		return attempt{name, http.MethodPut, poolTurn, body, refused}
	}
	// with adds fields to the metadata of a Lease.
	with := func(lease, more string) string {
		return strings.Replace(lease, `{"metadata": {`, `{"metadata": {`+more+`, `, 1)
	}
	writers := func(times ...string) string {
		var entries []string
		for i, at := range times {
			entries = append(entries, fmt.Sprintf(`{"manager": "m-%d", "operation": "Update",
				"apiVersion": "coordination.k8s.io/v1", "time": %q, "fieldsType": "FieldsV1",
				"fieldsV1": {"f:spec": {"f:renewTime": {}, "f:holderIdentity": {}, "f:acquireTime": {}},
				"f:metadata": {"f:labels": {"f:l-%[1]d": {}}}}}`, i, at))
		}
		return `"managedFields": [` + strings.Join(entries, ", ") + `]`
	}
	labeled := func(n int) string {
		var labels []string
		for i := range n {
			labels = append(labels, fmt.Sprintf(`"l-%d": "a"`, i))
		}
		return `"labels": {` + strings.Join(labels, ", ") + `}`
	}
	const future = "2999-01-01T00:00:00Z"
	later := time.Now().AddDate(900, 0, 0)

	t.Run("the node that has it", func(t *testing.T) {
		c.check(t, agent2, []attempt{
			{"takes it", http.MethodPost, leases, turn("node-2", 600, time.Now()), false},
			put("renews it", turn("node-2", 600, time.Now()), false),
			put("keeps it for long", turn("node-2", 601, time.Now()), true),
			put("keeps it without an end",
				strings.Replace(turn("node-2", 600, time.Now()), `"leaseDurationSeconds": 600, `, "", 1), true),
			put("renews it in the future", turn("node-2", 600, later), true),
			put("says that it was written later",
				with(turn("node-2", 600, time.Now()), writers(future)), false),
			put("wants no record of who wrote it",
				with(turn("node-2", 600, time.Now()), `"managedFields": [{}]`), true),
			put("gives it back without a record of who wrote it",
				with(free, `"managedFields": [{}]`), true),
			put("renews it, after all that", turn("node-2", 600, time.Now()), false),
		})

		var now struct{ Spec struct{ RenewTime string } }
		get(t, c, poolTurn, &now)
		at, err := time.Parse(time.RFC3339, now.Spec.RenewTime)
		if err != nil {
			t.Fatal(err)
		}
		c.check(t, agent2, []attempt{put("writes it and does not renew it",
			with(turn("node-2", 600, at), `"labels": {"a": "b"}`), true)})
	})

	var many []string
	for range 12 {
		many = append(many, future)
	}
	t.Run("a node that does not wait", func(t *testing.T) {
		c.check(t, agent1, []attempt{
			put("takes it", turn("node-1", 600, time.Now()), true),
			put("takes it in the future", turn("node-1", 600, later), true),
			put("takes it, an hour later as it says", turn("node-1", 600, time.Now().Add(time.Hour)), true),
			put("takes it, written later as it says",
				with(turn("node-1", 600, later), writers(future)), true),
			put("takes it, written by many later",
				with(with(turn("node-1", 600, later), writers(many...)), labeled(12)), true),
			put("takes it without a record of who wrote it",
				with(turn("node-1", 600, later), `"managedFields": [{}]`), true),
			put("takes it, and says nothing of the time",
				`{"metadata": {"name": "gardener-node-agent-pool"}, "spec": {"holderIdentity": "node-1"}}`, true),
			put("gives it back for the other", free, true),
			put("writes it for the other", turn("node-2", 1, time.Now()), true),
		})
	})

	t.Run("a turn that is given back", func(t *testing.T) {
		c.check(t, agent2, []attempt{put("by its node", free, false)})
		c.check(t, agent1, []attempt{
			put("in the future", turn("node-1", 600, later), true),
			put("by the next node", turn("node-1", 600, time.Now()), false),
			put("by that node", free, false),
		})
	})

	t.Run("a turn that is over", func(t *testing.T) {
		c.check(t, agent2, []attempt{put("of a node that is gone", turn("node-2", 1, time.Now()), false)})
		c.mustAwait(t, func() error {
			return c.as(t, agent1, http.MethodPut, poolTurn, turn("node-1", 600, time.Now()))
		})
	})
}
