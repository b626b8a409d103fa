package cluster

import (
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/loam-os/loam/agent/status"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func annotated(key, value string) *core.Node {
	return &core.Node{ObjectMeta: meta.ObjectMeta{
		Name:        "node-1",
		Annotations: map[string]string{key: value},
	}}
}

// newWorld is a node that runs configuration "old" while its cluster has "new"
// for it, with all that the controllers read.
func newWorld() world {
	w := world{
		now:    noon,
		uptime: time.Hour,
		config: Config{Hostname: "me"},
		bootID: "boot 1",
		status: status.Status{
			Phase:        status.Applied,
			AppliedAt:    status.Duration(time.Minute),
			Generation:   "000001-0123456789ab",
			Version:      "old",
			Offered:      "old",
			ImageVersion: "1.0.0",
		},
		released: &pendingConfig{sum: "old", label: "old", text: []byte("old")},
		reported: "old",
	}

	w.setNode(annotated(appliedAnnotation, "old"))
	w.setPending(pendingConfig{
		secret: "pool",
		sum:    "new",
		target: "new",
		label:  "new",
		since:  noon,
	})
	return w
}

// runningNew is newWorld once the node runs configuration "new".
func runningNew() world {
	w := newWorld()
	w.released = w.pending
	w.status.Generation = "000002-0123456789ab"
	w.status.Version = "new"
	w.status.Offered = "new"
	return w
}

func TestDelay(t *testing.T) {
	for _, tt := range []struct {
		name string
		node *core.Node
		want time.Duration
	}{
		{"no Node", nil, time.Minute},
		{"no annotation", &core.Node{}, time.Minute},
		{"an invalid duration", annotated(delayAnnotation, "soon"), time.Minute},
		{"a negative duration", annotated(delayAnnotation, "-1s"), time.Minute},
		{"a duration", annotated(delayAnnotation, "17.5s"), 17500 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := delay(tt.node, time.Minute); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

func TestDelayOfAPendingConfiguration(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(w *world)
		want time.Time
	}{
		{"once it is seen", func(*world) {}, noon},
		{"seen again", func(w *world) {
			w.setPending(pendingConfig{sum: "new", since: noon.Add(time.Minute)})
		}, noon},
		{"with another text", func(w *world) {
			w.setPending(pendingConfig{sum: "newer", since: noon.Add(time.Minute)})
		}, noon.Add(time.Minute)},
		{"later", func(w *world) { w.tick(noon.Add(time.Hour), 2*time.Hour) }, noon},
		{"after the clock was set back", func(w *world) {
			w.tick(noon.Add(-time.Hour), 2*time.Hour)
			w.tick(noon.Add(-time.Minute), 3*time.Hour)
		}, noon.Add(-time.Hour)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			tt.do(&w)
			if got := w.pending.since; !got.Equal(tt.want) {
				t.Errorf("since %s, want %s", got, tt.want)
			}
		})
	}
}

func TestAClockThatIsSetBackIsSeen(t *testing.T) {
	w := newWorld()
	w.tick(noon, time.Hour)
	for _, tt := range []struct {
		name   string
		now    time.Time
		uptime time.Duration
		want   int
	}{
		{"it goes on", noon.Add(time.Minute), time.Hour + time.Minute, 0},
		{"it is corrected a little", noon.Add(2*time.Minute - time.Second), time.Hour + 2*time.Minute, 0},
		{"it is set forward", noon.Add(48 * time.Hour), time.Hour + 3*time.Minute, 0},
		{"it is set back", noon.Add(time.Minute), time.Hour + 4*time.Minute, 1},
		{"it is set back by less than has passed", noon.Add(30 * time.Minute), 2*time.Hour + 4*time.Minute, 2},
	} {
		w.tick(tt.now, tt.uptime)
		if w.setBacks != tt.want {
			t.Errorf("%s: %d times, want %d", tt.name, w.setBacks, tt.want)
		}
	}
}

func TestOlderVersionsOfTheNodeAreIgnored(t *testing.T) {
	node := func(uid, version string) *core.Node {
		return &core.Node{ObjectMeta: meta.ObjectMeta{
			UID:             types.UID(uid),
			ResourceVersion: version,
		}}
	}

	for _, tt := range []struct {
		name     string
		n, known *core.Node
		want     bool
	}{
		{"the first", node("a", "1"), nil, false},
		{"a newer one", node("a", "10"), node("a", "9"), false},
		{"the same", node("a", "9"), node("a", "9"), false},
		{"an older one", node("a", "9"), node("a", "10"), true},
		{"another Node", node("b", "9"), node("a", "10"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := (world{node: tt.known, fresh: true}).isStale(tt.n); got != tt.want {
				t.Error(got)
			}
		})
	}
}

func TestLinkFollowsTheWorld(t *testing.T) {
	w := newWorld()
	w.config.Server = "https://new"
	w.secret = "pool"
	w.node.Status.Conditions = []core.NodeCondition{{
		Type:   core.NodeReady,
		Status: core.ConditionTrue,
	}}

	got := w.link(status.Cluster{Server: "https://old", Problem: "a problem"})
	want := status.Cluster{
		Server:  "https://new",
		Secret:  "pool",
		Node:    "node-1",
		Ready:   true,
		Problem: "a problem",
	}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}

	w.setNode(nil)
	if got := w.link(got); got.Node != "" || got.Ready {
		t.Errorf("without a Node: %+v", got)
	}
}
