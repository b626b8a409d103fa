package plane

import (
	"bytes"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/plane/bundle"
	index "github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/image/meter"
	"github.com/loam-os/loam/image/publish"
	"github.com/loam-os/loam/image/publish/kubernetes"
	"github.com/loam-os/loam/test/cluster"
	"github.com/loam-os/loam/test/cluster/upstream"
	"github.com/loam-os/loam/test/files"
	"github.com/loam-os/loam/test/judge"
)

// kubernetesBundle returns the bundle of the programs that package cluster builds.
func kubernetesBundle(t testing.TB) kubernetes.Bundle {
	t.Helper()
	b, err := upstream.Bundle(t.Context(), bundlePrograms(t))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func bundlePrograms(t testing.TB) map[string]string {
	t.Helper()
	paths := map[string]string{}
	for _, name := range slices.Concat(bundle.Programs, index.KubernetesImages()) {
		paths[name] = cluster.Program(t, name)
	}
	return paths
}

// serveBundle publishes a bundle, serves the repository, and returns it as a node
// knows it.
func serveBundle(t testing.TB, b kubernetes.Bundle) bundle.Source {
	t.Helper()
	dir := t.TempDir()
	keys, err := publish.NewKeys(filepath.Join(t.TempDir(), "keys"), 1)
	if err != nil {
		t.Fatal(err)
	}
	expiries := publish.DefaultExpiries()
	if err := publish.Init(dir, keys, 1, expiries, built); err != nil {
		t.Fatal(err)
	}
	_, err = publish.PublishKubernetes(t.Context(), dir, keys, b.Index, b.Pack, expiries, built,
		meter.None)
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.ReadFile(filepath.Join(dir, "metadata/1.root.json"))
	if err != nil {
		t.Fatal(err)
	}

	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(server.Close)
	return bundle.Source{Ref: server.URL, Root: root, Keep: metadata{}}
}

// metadata implements [repository.Records].
type metadata map[string][]byte

func (m metadata) Read(name string) ([]byte, error) {
	if text, ok := m[name]; ok {
		return text, nil
	}
	return nil, fs.ErrNotExist
}

func (m metadata) Write(name string, text []byte) error {
	m[name] = bytes.Clone(text)
	return nil
}

// fetchBundle fetches a bundle into the state of a new node.
func fetchBundle(t testing.TB, from bundle.Source, version string) bundle.Bundle {
	t.Helper()
	store := bundle.NewStore(durable.New(files.RootOnDisk(t), nil))
	b, err := store.Fetch(t.Context(), from, bundle.Request{
		Version: version,
		Arch:    runtime.GOARCH,
		Now:     built,
		Log:     zap.NewNop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestKubernetesBundle publishes real programs and images, and fetches them as a
// node does: they run, and the images have the names of kubeadm's.
func TestKubernetesBundle(t *testing.T) {
	judge.Long(t, "agent/plane/bundle and image/publish/kubernetes")
	made := kubernetesBundle(t)
	version := made.Index.Version
	b := fetchBundle(t, serveBundle(t, made), version)
	for _, name := range bundle.Programs {
		arg, want := "--version", "Kubernetes v"+version
		switch name {
		case "etcd":
			want = "etcd Version: 3.7."
		case "etcdutl":
			arg, want = "version", "etcdutl version: 3.7."
		}
		out, err := exec.Command(filepath.Join(b.Bin(), name), arg).CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s %s: %v\n%s\nwant %q", name, arg, err, out, want)
		}
	}

	var names []string
	for _, image := range b.Images {
		names = append(names, image.Name)
	}
	if diff := cmp.Diff(kubeadmImages(t), names); diff != "" {
		t.Error(diff)
	}
}

// kubeadmImages returns the names of CoreDNS' and pause's images for kubeadm.
func kubeadmImages(t *testing.T) []string {
	t.Helper()
	version, err := cluster.KubernetesVersion(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(cluster.Program(t, "kubeadm"), "config", "images", "list",
		"--kubernetes-version", version).Output()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for name := range strings.Lines(string(out)) {
		if strings.Contains(name, "/coredns:") || strings.Contains(name, "/pause:") {
			names = append(names, strings.TrimSpace(name))
		}
	}
	return names
}

// BenchmarkKubernetesBundle measures what a bundle takes in a repository and on a
// node, and how long it takes to make and to fetch it over loopback.
func BenchmarkKubernetesBundle(b *testing.B) {
	b.Run("make", func(b *testing.B) {
		programs := bundlePrograms(b)
		var made kubernetes.Bundle
		var times []time.Duration
		for b.Loop() {
			work := b.TempDir()
			times = append(times, timed(func() {
				var err error
				made, err = upstream.Make(b.Context(), work, programs)
				if err != nil {
					b.Fatal(err)
				}
			}))
		}
		report(b, times)

		plain := int64(0)
		for _, f := range made.Index.Files {
			plain += f.Size
		}
		b.ReportMetric(float64(made.Index.Pack.Size)/1e6, "packed-MB")
		b.ReportMetric(float64(plain)/1e6, "plain-MB")
	})

	b.Run("fetch", func(b *testing.B) {
		made := kubernetesBundle(b)
		from := serveBundle(b, made)
		var times []time.Duration
		for b.Loop() {
			times = append(times, timed(func() { fetchBundle(b, from, made.Index.Version) }))
		}
		report(b, times)
	})
}
