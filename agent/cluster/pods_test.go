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

// Interrupts prepareRejoin after each of its steps and runs it again: the
// kubelet never loses the credentials to join with.
func TestInterruptedRejoinCanBeRepeated(t *testing.T) {
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
		first := credentialStore{durable.New(root, func(durable.Step) error {
			steps++
			if steps > cut {
				return os.ErrDeadlineExceeded
			}
			return nil
		})}.prepareRejoin(c)

		if err := (credentialStore{durable.New(root, nil)}).prepareRejoin(c); err != nil {
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

		// As the kubelet leaves it while it waits for its certificate.
		place(t, dir, kubeletReal, "kind: Config")
		if err := newCredentialStore(root).prepareRejoin(c); err != nil {
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
