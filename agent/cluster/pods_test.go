package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/loam-os/loam/agent/durable"
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

// other is a pod that has no manifest in the configuration.
func other(static string) *core.Pod {
	return &core.Pod{ObjectMeta: meta.ObjectMeta{
		Name:      "old-node-1",
		Namespace: "kube-system",
		Labels:    map[string]string{staticLabel: static},
	}}
}

func TestLacking(t *testing.T) {
	files := fstest.MapFS{
		"etc/kubernetes/manifests/etcd.yaml": {Data: []byte(manifest)},
		// Nothing that the configuration has.
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
		{"no pod", nil, "static pod kube-system/etcd is not there"},
		{
			"an older one",
			[]*core.Pod{mirror("h0", core.ConditionTrue)},
			"static pod kube-system/etcd is still that of an older manifest",
		},
		{
			"one that does not answer yet",
			[]*core.Pod{mirror("h1", core.ConditionFalse)},
			"static pod kube-system/etcd is not ready",
		},
		{"one that runs", []*core.Pod{mirror("h1", core.ConditionTrue)}, ""},
		{
			"one of another owner beside it",
			[]*core.Pod{mirror("h1", core.ConditionTrue), other("")},
			"",
		},
		{
			"one that Gardener has given up beside it",
			[]*core.Pod{mirror("h1", core.ConditionTrue), other("true")},
			"static pod kube-system/old-node-1 is still there",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := lacking(want, "node-1", test.pods); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}

	files["etc/kubernetes/manifests/note.txt"] = &fstest.MapFile{Data: []byte("hello")}
	if _, err := staticPods(files, []string{"/etc/kubernetes/manifests/note.txt"}); err == nil ||
		!strings.Contains(err.Error(), "/etc/kubernetes/manifests/note.txt: not a Pod") {
		t.Errorf("a file that is no pod: %v", err)
	}
}

// TestAKubeletJoinsAgain cuts what rejoin does after each of its steps and does
// it again: what the kubelet joins with is never lost.
func TestAKubeletJoinsAgain(t *testing.T) {
	for cut := 0; ; cut++ {
		dir := t.TempDir()
		pki := filepath.Join(dir, kubeletPKI)
		if err := os.MkdirAll(pki, 0o755); err != nil {
			t.Fatal(err)
		}

		for name, text := range map[string]string{
			"kubelet-client-1.pem": "KEY AND CERTIFICATE",
			"../kubeconfig-real":   "kind: Config",
		} {
			if err := os.WriteFile(filepath.Join(pki, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}

		err := os.Symlink("/"+kubeletPKI+"/kubelet-client-1.pem",
			filepath.Join(dir, kubeletCurrent))
		if err != nil {
			t.Fatal(err)
		}

		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}

		steps := 0
		c := Config{Server: "https://new", CA: []byte("CA")}
		first := keep{durable.New(root, func(durable.Step) error {
			steps++
			if steps > cut {
				return os.ErrDeadlineExceeded
			}
			return nil
		})}.rejoin(c)

		if err := (keep{durable.New(root, nil)}).rejoin(c); err != nil {
			t.Fatalf("after %d steps: %v", cut, err)
		}

		text, err := os.ReadFile(filepath.Join(dir, kubeletBootstrap))
		if err != nil || !strings.Contains(string(text), "https://new") ||
			!strings.Contains(string(text), "S0VZIEFORCBDRVJUSUZJQ0FURQ==") {
			t.Fatalf("after %d steps it joins with %s, %v", cut, text, err)
		}

		for _, name := range []string{kubeletReal, kubeletPKI} {
			if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
				t.Fatalf("after %d steps there is still %s", cut, name)
			}
		}

		place(t, dir, kubeletReal, "kind: Config") // Of a kubelet that waits for its certificate.
		if err := keepOf(root).rejoin(c); err != nil {
			t.Fatalf("once more: %v", err)
		}

		if again, err := os.ReadFile(filepath.Join(dir, kubeletBootstrap)); err != nil ||
			string(again) != string(text) {
			t.Fatalf("once more it joins with %s, %v", again, err)
		}

		if err := root.Close(); err != nil {
			t.Fatal(err)
		}

		if first == nil {
			if cut < 5 {
				t.Fatalf("%d steps: it was never cut", cut)
			}
			return
		}
	}
}
