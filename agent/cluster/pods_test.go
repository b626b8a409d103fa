package cluster

import (
	"strings"
	"testing"
	"testing/fstest"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const manifest = `{"kind": "Pod", "metadata": {"name": "etcd", "namespace": "kube-system", "annotations": {"gardener.cloud/config.mirror": "h1"}}}`

func mirror(hash string, ready core.ConditionStatus) *core.Pod {
	return &core.Pod{
		ObjectMeta: meta.ObjectMeta{
			Name:        "etcd-node-1",
			Namespace:   "kube-system",
			Annotations: map[string]string{hashAnnotation: hash},
		},
		Status: core.PodStatus{Conditions: []core.PodCondition{
			{Type: core.PodReady, Status: ready},
		}},
	}
}

// other is a pod without a manifest in the configuration.
func other(static string) *core.Pod {
	return &core.Pod{ObjectMeta: meta.ObjectMeta{
		Name:      "old-node-1",
		Namespace: "kube-system",
		Labels:    map[string]string{staticLabel: static},
	}}
}

func TestNotReady(t *testing.T) {
	files := fstest.MapFS{
		"etc/kubernetes/manifests/etcd.yaml": {Data: []byte(manifest)},
		// Not part of the configuration.
		"etc/kubernetes/manifests/foreign.yaml": {Data: []byte("{")},
	}

	want, err := staticPods(files, []string{"/etc/kubernetes/manifests/etcd.yaml"})
	if err != nil {
		t.Fatal(err)
	}

	for _, test := range []struct {
		name string
		pods []*core.Pod
		want string
	}{
		{"no pod", nil, "static pod kube-system/etcd is missing"},
		{
			"a pod of an older manifest",
			[]*core.Pod{mirror("h0", core.ConditionTrue)},
			"static pod kube-system/etcd still runs an older manifest",
		},
		{
			"a pod that is not ready",
			[]*core.Pod{mirror("h1", core.ConditionFalse)},
			"static pod kube-system/etcd is not ready",
		},
		{"a ready pod", []*core.Pod{mirror("h1", core.ConditionTrue)}, ""},
		{
			"beside a pod of another owner",
			[]*core.Pod{mirror("h1", core.ConditionTrue), other("")},
			"",
		},
		{
			"beside a pod that Gardener has removed",
			[]*core.Pod{mirror("h1", core.ConditionTrue), other("true")},
			"static pod kube-system/old-node-1 is still there",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := notReady(want, "node-1", test.pods); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}

	files["etc/kubernetes/manifests/note.txt"] = &fstest.MapFile{Data: []byte("hello")}
	if _, err := staticPods(files, []string{"/etc/kubernetes/manifests/note.txt"}); err == nil ||
		!strings.Contains(err.Error(), "/etc/kubernetes/manifests/note.txt: not a Pod") {
		t.Errorf("a file without a pod: %v", err)
	}
}
