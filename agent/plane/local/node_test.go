package local

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/plane"
)

// TestTheTaintIsAsTheRecordSays: a kubelet gives it only to a Node that it makes.
func TestTheTaintIsAsTheRecordSays(t *testing.T) {
	ours := map[string]any{"key": plane.TaintKey, "effect": plane.TaintEffect}
	evicts := map[string]any{"key": plane.TaintKey, "effect": "NoExecute"}
	other := map[string]any{"key": "gpu", "value": "yes", "effect": "NoSchedule"}
	for name, row := range map[string]struct {
		schedulable  bool
		before, want []map[string]any
		writers      int
	}{
		"no pods any more":        {false, nil, []map[string]any{ours}, 0},
		"beside others":           {false, []map[string]any{other}, []map[string]any{other, ours}, 0},
		"it is there":             {false, []map[string]any{ours, other}, []map[string]any{ours, other}, 0},
		"pods again":              {true, []map[string]any{ours}, []map[string]any{}, 0},
		"others stay":             {true, []map[string]any{other, ours, evicts}, []map[string]any{other, evicts}, 0},
		"while others write, too": {false, []map[string]any{other}, []map[string]any{other, ours}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			n, fake, _ := withAPI(t, "1.37.2")
			fake.node.Metadata.ResourceVersion = "1"
			fake.node.Spec.Taints = row.before
			fake.writers = row.writers
			r, _, err := n.Store.Record()
			if err != nil {
				t.Fatal(err)
			}
			r.Schedulable = &row.schedulable
			if err := n.Store.WriteRecord(r); err != nil {
				t.Fatal(err)
			}

			p := progress{pause: minRetry}
			if err := n.cluster.session(t.Context(), nil, &p); err != nil || !n.State().Ready {
				t.Errorf("%v, state %+v", err, n.State())
			}
			if diff := cmp.Diff(row.want, fake.node.Spec.Taints); diff != "" {
				t.Error(diff)
			}
			if _, has := fake.node.Metadata.Labels[roleLabel]; !has {
				t.Errorf("labels %v", fake.node.Metadata.Labels)
			}
		})
	}
}
