package cluster

import (
	"testing"
	"testing/fstest"
	"time"

	core "k8s.io/api/core/v1"
)

func TestDecideReadiness(t *testing.T) {
	for _, tt := range []struct {
		name     string
		edit     func(w *world)
		updating string
		want     readinessAction
	}{
		{"a new configuration", func(*world) {}, "", readinessCheck},
		{"before the first status", func(w *world) { w.status.Version = "" }, "", readinessWait},
		{"without a Node", func(w *world) { w.setNode(nil) }, "", readinessWait},
		{"before the Secret is known", func(w *world) { w.pending = nil }, "", readinessWait},
		{"while it runs another", func(w *world) { w.status.Version = "old" }, "", readinessWait},
		{"while it is updated in place", func(*world) {}, "new", readinessWait},
		{"after another was updated in place", func(*world) {}, "old", readinessCheck},
		{"once it was reported", func(w *world) { w.reported = "new" }, "", readinessDone},
		{
			"once an earlier run of the agent has reported it",
			func(w *world) {
				w.reported = ""
				w.node.Annotations[appliedAnnotation] = "new"
			},
			"",
			readinessDone,
		},
		{
			"reported, and another since",
			func(w *world) {
				w.node.Annotations[appliedAnnotation] = "new"
			},
			"",
			readinessCheck,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := runningNew()
			tt.edit(&w)
			if got := decideReadiness(w, tt.updating); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

func TestReadyDigestWaitsForStaticPods(t *testing.T) {
	const name = "etc/kubernetes/manifests/etcd.yaml"
	files := fstest.MapFS{name: {Data: []byte("{")}}
	c := readinessController{
		root:    files,
		updates: &updates{},
		checks:  podChecks{stop: func() {}}, // As if the pods were watched.
	}

	w := runningNew()
	w.status.StaticPods = []string{"/" + name}

	for _, tt := range []struct {
		name string
		do   func()
		out  outcome
		want string
	}{
		{
			"a manifest that is damaged",
			func() {},
			outcome{
				wake:    noon.Add(time.Second),
				blocked: "/" + name + ": not a Pod",
			},
			"",
		},
		{
			"a manifest that was corrected",
			func() { files[name] = &fstest.MapFile{Data: []byte(manifest)} },
			outcome{blocked: "static pod kube-system/etcd is missing"},
			"",
		},
		{
			"a pod that is ready",
			func() { c.checks.pods = []*core.Pod{mirror("h1", core.ConditionTrue)} },
			outcome{},
			"new",
		},
		{
			"a pod that is not ready, once it was reported",
			func() {
				w.reported = "new"
				c.checks.pods = nil
			},
			outcome{},
			"new",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.do()
			out, err := c.step(t.Context(), &w)
			if out != tt.out || err != nil || w.ready != tt.want {
				t.Errorf("%+v, %v, ready %q", out, err, w.ready)
			}
		})
	}
}
