package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loam-os/loam/agent/turns"
	"github.com/loam-os/loam/cmd/outcome"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/test/cluster"
)

const (
	testLeases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
	testNodes  = "/api/v1/nodes"
	testNode   = testNodes + "/node-1"
)

// annotations returns those of an object.
func annotations(t *testing.T, c *cluster.Cluster, path string) map[string]string {
	t.Helper()
	text, err := c.Do(http.MethodGet, path, "")
	if err != nil {
		t.Fatal(err)
	}
	var o edge
	if err := json.Unmarshal(text, &o); err != nil {
		t.Fatal(err)
	}
	return o.Metadata.Annotations
}

func TestRolloutAtARealAPIServer(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	t.Setenv("KUBECONFIG", kubeconfigFile(t, c.Admin(t)))

	_, err := loamctl(t, "rollout", "status", "edge")
	if err == nil || err.Error() != "pool edge has no ledger" ||
		!strings.Contains(hint.Of(err), "the first of them needs a turn") {
		t.Errorf("without a ledger: %v, hint %q", err, hint.Of(err))
	}

	holder := turns.Holder{
		ID:      "1",
		Machine: "machine-1",
		Node:    "node-1",
		Target:  "0123456789abcdef",
		Class:   turns.Kubelet,
	}
	ledger := turns.New()
	ledger.State = turns.Running
	ledger.Target = "0123456789abcdef"
	ledger.Done = 3
	ledger.Failed = 1
	ledger.Size = 10
	ledger.Holders["machine-1"] = holder
	ledger.Systems["89ab"] = turns.Rollout{
		Target:  "89ab",
		Version: "2.0.0",
		Failed:  1,
		Halted:  "node-3: version 2.0.0: no kubelet",
	}
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"name":        "loam-rollout-edge",
		"annotations": ledger.Annotations(map[string]string{"note": "kept"}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range []struct{ method, path, body string }{
		{http.MethodPost, testLeases, string(text)},
		{http.MethodPost, testNodes, fmt.Sprintf(
			`{"metadata": {"name": "node-1", "annotations": {"loam.dev/turn": %q}}}`, holder)},
		{http.MethodPost, testNodes,
			`{"metadata": {"name": "node-2"}, "spec": {"unschedulable": true}}`},
		{http.MethodPost, testNodes,
			`{"metadata": {"name": "node-3", "labels": {"loam.dev/pinned": "db"}}}`},
		{http.MethodPost, testNodes,
			`{"metadata": {"name": "node-4", "labels": {"loam.dev/canary": ""}}}`},
		{http.MethodPost, testNodes, fmt.Sprintf(
			`{"metadata": {"name": "node-5", "annotations": {"loam.dev/failed": %q,
				"loam.dev/failed-system": %q}}}`,
			turns.Failure{Target: "0123456789abcdef", Revision: 1, Why: "a.service fails"},
			turns.Failure{Target: "0ld", Version: "1.0.0", Why: "of another rollout"})},
		{http.MethodPost, testLeases, strings.ReplaceAll(`{"metadata": {"name": "loam-rollout-edge-old",
			"annotations": {"R/state": "running", "R/nodes": "worker.gardener.cloud/pool=edge"}}}`,
			"R/", "rollout.loam.dev/")},
		{http.MethodPatch, testNodes + "/node-4/status",
			`{"status": {"conditions": [{"type": "Ready", "status": "True"}]}}`},
		{http.MethodPost, "/api/v1/namespaces/kube-system/secrets",
			`{"metadata": {"name": "gardener-node-agent-edge", "annotations":
				{"rollout.loam.dev/policy": "{maxUnavailable: 1, perZone: 1}"}}}`},
	} {
		if _, err := c.Do(object.method, object.path, object.body); err != nil {
			t.Fatal(err)
		}
	}

	for _, step := range []struct {
		args []string
		want string
	}{
		{[]string{"status", "edge"}, "state   running"},
		{[]string{"status", "edge"}, "target  0123456789ab\n" +
			"done    [###############-----] 3 of 4 nodes, 1 failed"},
		{[]string{"status", "edge"}, "pinned  node-3     db\n"},
		{[]string{"status", "edge"}, "failed  node-5     0123456789ab  a.service fails\n"},
		{[]string{"status", "edge"}, "system  2.0.0\ndone    [----"},
		{[]string{"status", "edge"}, "halted  node-3: version 2.0.0: no kubelet"},
		{[]string{"status", "edge"}, "away    node-2     Unknown,SchedulingDisabled\n"},
		{[]string{"status", "edge"}, "stands  no node may begin: 1 have their turn for too long, " +
			"and maxFailures is 0: machine-1\n"},
		{[]string{"status", "edge", "-o", "json"}, `"node": "node-2"`},
		{[]string{"retry", "edge", "node-5"}, "failed  node-5     0123456789ab  is to be tried once " +
			"more: a.service fails\n"},
		{[]string{"retry", "edge", "node-5", "-o", "json"}, `"retry": true`},
		{[]string{"pause", "edge", "--reason", "lunch", "-o", "json"}, `"why": "lunch"`},
		{[]string{"now", "edge", "--max", "30%", "--reason", "a hole"}, "now     30% may be away until "},
		{[]string{"resume", "edge", "-o", "json"}, `"state": "running"`},
		{[]string{"plan", "edge"}, "away     4 of 1\n"},
		{[]string{"plan", "edge"}, "first    node-4\n"},
		{[]string{"plan", "edge"}, "pinned   node-3\n"},
		{[]string{"plan", "edge"}, "problem  5 Nodes have no label topology.kubernetes.io/zone: " +
			"they count as one zone or rack\n"},
		{[]string{"plan", "edge"}, "problem  4 of 1 nodes are away: no node may begin\n"},
		{[]string{"plan", "edge"}, "problem  the ledger in Lease loam-rollout-edge-old is about " +
			"the same Nodes (worker.gardener.cloud/pool=edge)"},
		{[]string{"plan", "edge", "-o", "json"}, `"mayBeAway": 1`},
		{[]string{"status", "edge"}, "turns   machine-1  kubelet  for "},
		{[]string{"pause", "edge", "--reason", "lunch"}, "state   paused: lunch\n"},
		{[]string{"status", "edge"}, "state   paused: lunch\n"},
		{[]string{"resume", "edge"}, "state   running\n"},
	} {
		out, err := loamctl(t, append([]string{"rollout"}, step.args...)...)
		if err != nil || !strings.Contains(out, step.want) {
			t.Errorf("%s: %v, printed\n%swant %q", step.args, err, out, step.want)
		}
	}

	for _, pause := range []struct{ reason, said string }{
		{"the weekend", ""},
		{"tea", "was paused: the weekend\n"},
	} {
		var out, said bytes.Buffer
		cmd := root()
		cmd.SetArgs([]string{"rollout", "pause", "edge", "--reason", pause.reason, "-o", "json"})
		cmd.SetOut(&out)
		cmd.SetErr(&said)
		err := cmd.ExecuteContext(t.Context())
		if err != nil || said.String() != pause.said || !json.Valid(out.Bytes()) {
			t.Errorf("pause for %s: %v, said %q, printed\n%s", pause.reason, err, said.String(), out.String())
		}
	}
	if out, err := loamctl(t, "rollout", "resume", "edge"); err != nil {
		t.Errorf("resume: %v, printed\n%s", err, out)
	}

	if asked := annotations(t, c, testNodes+"/node-5")["loam.dev/retry"]; asked != "0123456789abcdef" {
		t.Errorf("the Node is asked to try %q", asked)
	}
	out, err := loamctl(t, "rollout", "status", "edge")
	if err != nil || strings.Contains(out, "of another rollout") {
		t.Errorf("status: %v, printed\n%s", err, out)
	}

	_, err = loamctl(t, "rollout", "forget", "edge", "node-1")
	if fault.Of(err) != fault.NoSuchTurn ||
		!strings.Contains(hint.Of(err), "`loamctl rollout forget edge machine-1`") {
		t.Errorf("forget by the name of a Node: %v, hint %q", err, hint.Of(err))
	}
	if _, ok := annotations(t, c, testNode)["loam.dev/turn"]; !ok {
		t.Error("the Node has lost its mark")
	}
	out, err = loamctl(t, "rollout", "forget", "edge", "machine-1")
	if err != nil || strings.Contains(out, "machine-1") {
		t.Errorf("forget: %v, printed\n%s", err, out)
	}
	if mark, ok := annotations(t, c, testNode)["loam.dev/turn"]; ok {
		t.Errorf("the Node has the mark %s", mark)
	}
	have := annotations(t, c, testLeases+"/loam-rollout-edge")
	l, err := turns.ReadLedger(have)
	if err != nil || l.Done != 3 || len(l.Holders) != 0 || have["note"] != "kept" {
		t.Errorf("ledger %+v %v of %v", l, err, have)
	}

	_, err = loamctl(t, "rollout", "status", "egde")
	if err == nil || hint.Of(err) != "pools with a ledger: edge, edge-old" {
		t.Errorf("a name that is not right: %v, hint %q", err, hint.Of(err))
	}
	if h := l.Hurry; h != nil {
		t.Errorf("resume keeps %+v", h)
	}
	for flag, args := range map[string][]string{
		"--max is required":    {},
		"--max: \"0\" is":      {"--max", "0"},
		"--reason is required": {"--max", "3"},
		"--for 48h0m0s: want":  {"--max", "3", "--reason", "a", "--for", "48h"},
	} {
		_, err := loamctl(t, append([]string{"rollout", "now", "edge"}, args...)...)
		if err == nil || !strings.HasPrefix(err.Error(), flag) || hint.Of(err) == "" {
			t.Errorf("now %v: %v", args, err)
		}
	}
	_, err = loamctl(t, "rollout", "plan", "other")
	if err == nil || !strings.Contains(err.Error(), "gardener-node-agent-other") {
		t.Errorf("a plan without a Secret: %v", err)
	}
	_, err = loamctl(t, "rollout", "pause", "edge")
	if err == nil || !strings.Contains(err.Error(), "--reason is required") {
		t.Errorf("a pause without a reason: %v", err)
	}

	// Who may not list the Nodes learns what has become of the ledger.
	for _, object := range []struct{ path, body string }{
		{"/apis/rbac.authorization.k8s.io/v1/clusterroles", `{"metadata": {"name": "ledgers"}, "rules": [
			{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "update"]}]}`},
		{"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `{"metadata": {"name": "ledgers"},
			"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "ledgers"},
			"subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "carl"}]}`},
	} {
		if _, err := c.Do(http.MethodPost, object.path, object.body); err != nil {
			t.Fatal(err)
		}
	}
	carl := strings.Replace(c.Admin(t), "  user:\n", "  user:\n    as: carl\n", 1)
	t.Setenv("KUBECONFIG", kubeconfigFile(t, carl))
	_, err = loamctl(t, "rollout", "pause", "edge", "--reason", "carl")
	const paused = "the ledger of pool edge is paused now, but its Nodes cannot be shown: "
	if err == nil || !strings.HasPrefix(err.Error(), paused) ||
		annotations(t, c, testLeases+"/loam-rollout-edge")["rollout.loam.dev/why"] != "carl" {
		t.Errorf("a pause of one who may not list the Nodes: %v", err)
	}
}

// TestForgetTellsAProgramThatItIsRefused mistypes the name of a machine.
func TestForgetTellsAProgramThatItIsRefused(t *testing.T) {
	t.Setenv("KUBECONFIG", pools(t))
	var out bytes.Buffer
	args := []string{"rollout", "forget", "edge", "node-71", "-o", "json"}
	status := outcome.Run(t.Context(), root(), args, outcome.User{Stderr: &out})

	var report struct{ Code, Class, Message, Hint string }
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	if status != 3 || report.Code != "no-such-turn" || report.Class != "refused" ||
		report.Message != "machine node-71 has no turn in pool edge" ||
		report.Hint != "machines with a turn: node-16, node-17" {
		t.Errorf("exit status %d, %+v", status, report)
	}
}

func TestPoliciesAreChecked(t *testing.T) {
	for _, tt := range []struct{ name, policy, want, err string }{
		{
			"a share",
			"maxUnavailable: 5%\n",
			": valid; of 250 nodes, 12 may be away; chunks end at 1, 2, 12, 62, 250\n",
			"",
		},
		{
			"a policy that allows nothing",
			"maxUnavailable: 0\n",
			":1: maxUnavailable: is 0: no node could ever change",
			"is not valid",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "policy.yaml")
			if err := os.WriteFile(path, []byte(tt.policy), 0o600); err != nil {
				t.Fatal(err)
			}

			var out bytes.Buffer
			cmd := root()
			cmd.SetArgs([]string{"rollout", "policy", path, "--nodes", "250"})
			cmd.SetOut(&out)
			cmd.SetErr(&out)
			err := cmd.ExecuteContext(t.Context())
			if !strings.HasPrefix(out.String(), path+tt.want) {
				t.Errorf("printed %q, want %q", out.String(), tt.want)
			}
			if (err == nil) != (tt.err == "") || (err != nil &&
				!strings.HasSuffix(err.Error(), tt.err)) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// TestAPageIsPrintedWhenItChanges watches one that changes once.
func TestAPageIsPrintedWhenItChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 4*watchInterval)
		defer cancel()
		var out bytes.Buffer
		n := 0
		err := watchPage(ctx, &out, io.Discard, func(w io.Writer) error {
			n++
			_, err := fmt.Fprintln(w, min(n, 2))
			return err
		})
		if err != nil || out.String() != "1\n2\n" || n < 4 {
			t.Errorf("%v after %d reads, printed %q", err, n, out.String())
		}
	})
}

// TestAWatchGoesOnAfterAnError: the API server is away for a while, or from the start.
func TestAWatchGoesOnAfterAnError(t *testing.T) {
	away := hint.With(errors.New("connection refused"), "wait")
	for _, tt := range []struct {
		name      string
		from, to  int // The reads that fail, of 6.
		err       error
		out, errs string
	}{
		{"all is well", 0, 0, nil, "1\n2\n3\n4\n5\n6\n", ""},
		{"two reads fail", 3, 5, nil, "1\n2\n5\n6\n", "loamctl: connection refused\nhint: wait\n"},
		{"all but the first fail", 2, 9, nil, "1\n", "loamctl: connection refused\nhint: wait\n"},
		{"the first one fails", 1, 2, away, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 6*watchInterval-time.Second)
				defer cancel()
				var out, errs bytes.Buffer
				n := 0
				err := watchPage(ctx, &out, &errs, func(w io.Writer) error {
					n++
					if tt.from <= n && n < tt.to {
						_, _ = io.WriteString(w, "half a")
						return away
					}
					_, err := fmt.Fprintln(w, n)
					return err
				})
				if err != tt.err || out.String() != tt.out || errs.String() != tt.errs {
					t.Errorf("%v, printed %q, and %q", err, out.String(), errs.String())
				}
			})
		})
	}
}
