package cluster

import (
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/status"
)

func TestReportIsFinal(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(w *world)
		want bool
	}{
		{"a ready configuration", func(*world) {}, true},
		{"no configuration", func(w *world) { w.ready, w.status.Version = "", "" }, true},
		{"a configuration that is not ready", func(w *world) { w.ready = "" }, false},
		{"a unit that is starting", func(w *world) {
			w.status.Units = []status.Unit{{Settled: true}, {Settled: false}}
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := runningNew()
			w.ready = "new"
			tt.edit(&w)
			if got := isFinal(w); got != tt.want {
				t.Error(got)
			}
		})
	}
}

// nodeServer is an API server with one Node. It records what is written.
type nodeServer struct {
	mu     sync.Mutex
	writes []string
}

func (n *nodeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.writes = append(n.writes, r.Method+" "+r.URL.Path)

	node := annotated(appliedAnnotation, "new")
	node.APIVersion = "v1"
	node.Kind = "Node"
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(node)
}

func TestReportIsWrittenOnce(t *testing.T) {
	k, _ := newTestStore(t)
	server := &nodeServer{}
	var group sync.WaitGroup
	a := newTestAPI(t, server)
	c := reportController{
		api:      a,
		root:     k.dir.Root(),
		events:   eventWriter{api: a, group: &group, log: zap.NewNop()},
		refusals: &refusalRecord{},
		log:      zap.NewNop(),
	}

	w := runningNew()
	w.ready = "new"
	for range 3 {
		if _, err := c.step(t.Context(), &w); err != nil {
			t.Fatal(err)
		}
	}
	group.Wait()

	want := []string{
		"PATCH /api/v1/nodes/node-1",
		"PATCH /api/v1/nodes/node-1/status",
		"POST /api/v1/namespaces/default/events",
	}
	slices.Sort(server.writes)
	if diff := cmp.Diff(want, server.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if w.reported != "new" || w.node.Annotations[appliedAnnotation] != "new" {
		t.Errorf("reported %q, Node %v", w.reported, w.node.Annotations)
	}
}
