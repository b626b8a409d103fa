package rollout

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/turns"
	"github.com/loam-os/loam/cmd/loamctl/kubeconfig"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// fakeAPI has objects by their paths.
type fakeAPI map[string]string

// Do implements [API].
func (f fakeAPI) Do(_ context.Context, method, path string, body, into any) error {
	text, ok := f[path]
	switch {
	case !ok && strings.HasPrefix(path, secretsPath):
		return &kubeconfig.StatusError{Code: http.StatusForbidden}
	case !ok:
		return &kubeconfig.StatusError{Code: http.StatusNotFound}
	case method == http.MethodPut:
		text, err := json.Marshal(body)
		f[path] = string(text)
		return err
	case method == http.MethodPatch:
		return f.patch(path, body.([]operation))
	}
	return json.Unmarshal([]byte(text), into)
}

// patch changes the annotations of an object, unless a test of the patch fails.
func (f fakeAPI) patch(path string, patch []operation) error {
	var object struct {
		Metadata struct {
			Name        string            `json:"name"`
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal([]byte(f[path]), &object); err != nil {
		return err
	}

	for _, o := range patch {
		key, ok := strings.CutPrefix(o.Path, "/metadata/annotations/")
		key = strings.ReplaceAll(key, "~1", "/")
		switch {
		case ok && o.Op == "add":
			object.Metadata.Annotations[key] = o.Value
		case !ok || o.Op != "test" || object.Metadata.Annotations[key] != o.Value:
			return &kubeconfig.StatusError{Code: http.StatusUnprocessableEntity, Message: key}
		}
	}
	text, err := json.Marshal(object)
	f[path] = string(text)
	return err
}

// List implements [API].
func (fakeAPI) List(context.Context, string, string) ([]kubeconfig.Object, error) {
	return nil, nil
}

// Table implements [API].
func (fakeAPI) Table(context.Context, string, string, bool) (kubeconfig.Table, error) {
	return kubeconfig.Table{}, nil
}

// object returns one with these annotations.
func object(t *testing.T, annotations map[string]string) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"name":        "loam-rollout-edge",
		"annotations": annotations,
	}})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestRetry(t *testing.T) {
	const node = nodesPath + "/node-1"
	const lease = leasesPath + "/loam-rollout-edge"
	const secret = secretsPath + "/gardener-node-agent-edge"
	config := turns.Failure{Target: "new", Why: "a.service fails"}.String()
	system := turns.Failure{Target: "89ab", Version: "2.0.0", Why: "it fell back"}.String()
	policy := func(text string) map[string]string { return map[string]string{policyAnnotation: text} }

	for _, tt := range []struct {
		name   string
		ledger func(l *turns.Ledger)
		secret map[string]string
		node   map[string]string

		// asked is the annotation of the Node then, halted why the ledger is, and stays
		// what is said of that.
		asked, halted, stays string
		failed               int
		err, hint            string
	}{
		{
			name:   "a configuration",
			secret: policy("maxUnavailable: 1"),
			node:   map[string]string{failedAnnotation: config},
			asked:  "new",
		},
		{
			name: "a configuration and a system",
			ledger: func(l *turns.Ledger) {
				l.Systems["89ab"] = turns.Rollout{Target: "89ab", Version: "2.0.0", Failed: 1}
			},
			secret: policy("maxUnavailable: 1"),
			node:   map[string]string{failedAnnotation: config, failedSystemAnnotation: system},
			asked:  "new,89ab",
		},
		{
			name:   "one of two failures",
			ledger: func(l *turns.Ledger) { l.Failed = 2 },
			secret: policy("maxUnavailable: 1"),
			node:   map[string]string{failedAnnotation: config},
			asked:  "new",
			halted: "node-1: no",
			stays:  "1 nodes have failed",
			failed: 1,
		},
		{
			name:   "one of two failures, of which one may be",
			ledger: func(l *turns.Ledger) { l.Failed = 2 },
			secret: policy("{maxUnavailable: 1, maxFailures: 1}"),
			node:   map[string]string{failedAnnotation: config},
			asked:  "new",
			failed: 1,
		},
		{
			name:   "what a person has halted",
			ledger: func(l *turns.Ledger) { l.Halted = "it looks bad" },
			secret: policy("maxUnavailable: 1"),
			node:   map[string]string{failedAnnotation: config},
			asked:  "new",
			halted: "it looks bad",
			stays:  "it looks bad",
		},
		{
			name:   "without the right to read the policy",
			node:   map[string]string{failedAnnotation: config},
			asked:  "new",
			halted: "node-1: no",
			stays:  "how many nodes may fail is not known: read Secret kube-system/gardener-node-agent-edge",
		},
		{
			name:   "once more before the node has seen it",
			secret: policy("maxUnavailable: 1"),
			node:   map[string]string{failedAnnotation: config, retryAnnotation: "new"},
			asked:  "new",
			halted: "node-1: no",
			stays:  "1 nodes have failed",
			failed: 1,
		},
		{
			name: "a node on which nothing has failed",
			err: "retry on Node node-1: it has neither annotation loam.dev/failed nor " +
				"loam.dev/failed-system: nothing has failed there",
			hint:   "`loamctl rollout status edge` names",
			halted: "node-1: no",
			failed: 1,
		},
		{
			name: "a failure of another rollout",
			node: map[string]string{failedAnnotation: "nonsense", failedSystemAnnotation: system},
			err: "retry on Node node-1: pool edge has no rollout of what has failed there: " +
				"loam.dev/failed is of invalid character 'o' in literal null (expecting 'u'); " +
				"loam.dev/failed-system is of 2.0.0: it fell back",
			hint:   "the nodes go on",
			halted: "node-1: no",
			failed: 1,
		},
		{
			name: "a configuration that another one has replaced, and that is halted",
			ledger: func(l *turns.Ledger) {
				l.Halts["01d"] = "node-7: no"
			},
			node: map[string]string{
				failedAnnotation: turns.Failure{Target: "01d", Why: "a.service fails"}.String(),
			},
			err: "retry on Node node-1: configuration 01d is halted, also if it has come back: " +
				"node-7: no",
			hint:   "`loamctl rollout resume edge` lets it go on",
			halted: "node-1: no",
			failed: 1,
		},
		{
			name:   "a ledger that is being restored",
			ledger: func(l *turns.Ledger) { l.State = turns.Restoring },
			node:   map[string]string{failedAnnotation: config},
			err:    "the ledger is being restored",
			hint:   "try again",
			halted: "node-1: no",
			failed: 1,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := turns.New()
			l.State = turns.Running
			l.Target = "new"
			l.Failed = 1
			l.Halted = "node-1: no"
			if tt.ledger != nil {
				tt.ledger(&l)
			}
			api := fakeAPI{
				lease: object(t, l.Annotations(nil)),
				node:  object(t, tt.node),
			}
			if tt.secret != nil {
				api[secret] = object(t, tt.secret)
			}

			_, stays, err := Rollout{API: api, Pool: "edge"}.Retry(t.Context(), "node-1")
			text := ""
			if err != nil {
				text = err.Error()
			}
			if text != tt.err || !strings.HasPrefix(hint.Of(err), tt.hint) ||
				!strings.HasPrefix(stays, tt.stays) || (stays == "") != (tt.stays == "") {
				t.Errorf("stays %q, error %v, hint %q", stays, err, hint.Of(err))
			}
			if code := fault.Of(err); err != nil && code != fault.NothingToRetry && code != fault.Busy {
				t.Errorf("code %q", code)
			}

			var n, after map[string]any
			if err := json.Unmarshal([]byte(api[node]), &n); err != nil {
				t.Fatal(err)
			}
			if asked := annotationsOf(n)[retryAnnotation]; asked != tt.asked {
				t.Errorf("asked for %q, want %q", asked, tt.asked)
			}
			if err := json.Unmarshal([]byte(api[lease]), &after); err != nil {
				t.Fatal(err)
			}
			got, err := turns.ReadLedger(annotationsOf(after))
			if err != nil || got.Halted != tt.halted || got.Failed != tt.failed {
				t.Errorf("ledger %+v, %v", got, err)
			}
		})
	}

	t.Run("a Node that does not exist", func(t *testing.T) {
		api := fakeAPI{lease: object(t, map[string]string{"rollout.loam.dev/state": "running"})}
		_, _, err := Rollout{API: api, Pool: "edge"}.Retry(t.Context(), "node-9")
		if err == nil || err.Error() != "retry on Node node-9: there is no such Node" ||
			fault.Of(err) != fault.NoSuchNode {
			t.Errorf("error %v", err)
		}
	})
}
