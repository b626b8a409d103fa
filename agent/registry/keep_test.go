package registry

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	images "github.com/containerd/containerd/api/services/images/v1"

	"github.com/loam-os/loam/test/cluster"
	"github.com/loam-os/loam/test/containerd"
)

// Images without a reference are removed with their content; images of other
// namespaces stay, even the same image.
func TestKeep(t *testing.T) {
	c := containerd.Start(t)
	r := cluster.StartRegistry(t, cluster.RegistryOptions{})
	provider := New(c.Socket())
	host := r.Address()
	for _, name := range []string{"a:v1", "b:v1", "c:v1"} {
		r.Push(t, name, cluster.Image{Layers: []cluster.Layer{{"f": text(name)}}})
		if _, err := get(t, provider, host+"/"+name, "/f"); err != nil {
			t.Fatal(err)
		}
	}

	lend(t, provider, host+"/b:v1", "k8s.io")
	keep := func(refs ...string) {
		t.Helper()
		if err := provider.Keep(t.Context(), refs); err != nil {
			t.Error(err)
		}
	}

	expect := func(namespace string, count int, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, names(t, provider, namespace)); diff != "" {
			t.Errorf("images of %s (-want +got):\n%s", namespace, diff)
		}
		if n := blobs(t, provider, namespace); n != count {
			t.Errorf("%s has %d blobs, want %d", namespace, n, count)
		}
	}

	expect("k8s.io", 3, host+"/b:v1")
	keep()

	// All were requested since Follow.
	expect(namespace, 9, host+"/a:v1", host+"/b:v1", host+"/c:v1")
	provider.Follow(nil)
	keep(host+"/a:v1", host+"/other:v1")
	expect(namespace, 3, host+"/a:v1")
	expect("k8s.io", 3, host+"/b:v1")

	if _, err := get(t, provider, host+"/b:v1", "/f"); err != nil {
		t.Errorf("what was removed is pulled again: %v", err)
	}

	provider.Follow(nil)
	keep()
	expect(namespace, 0)
	expect("k8s.io", 3, host+"/b:v1")
}

// lend gives an image of ours to another namespace, as when the kubelet pulls
// the same image.
func lend(t *testing.T, r *Registry, name, namespace string) {
	t.Helper()
	other := New(r.socket)
	ctx, s := connected(t, other, namespace)
	ours, own := connected(t, other, "loam")
	target, ok, err := own.record(ours, name)
	if err != nil || !ok {
		t.Fatalf("%s: %v, %t", name, err, ok)
	}

	spec, err := parse(name)
	if err != nil {
		t.Fatal(err)
	}

	m := other.remote(ctx, spec)
	defer m.close()
	if _, err := s.pull(ctx, m, target, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.images.Get(ctx, &images.GetImageRequest{Name: name}); err != nil {
		t.Fatal(err)
	}
}

// A layer that is damaged on the disk is detected and pulled again.
func TestDamagedLayerIsPulledAgain(t *testing.T) {
	c := containerd.Start(t)
	r := cluster.StartRegistry(t, cluster.RegistryOptions{})
	r.Push(t, "a:v1", cluster.Image{Layers: []cluster.Layer{{"f": text("1")}}})

	ref := r.Address() + "/a:v1"
	if _, err := get(t, New(c.Socket()), ref, "/f"); err != nil {
		t.Fatal(err)
	}

	layers, err := filepath.Glob(c.Dir + "/root/io.containerd.content.v1.content/blobs/sha256/*")
	if err != nil {
		t.Fatal(err)
	}

	for _, name := range layers {
		blob, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(string(blob), "{") {
			continue
		}

		blob[len(blob)/2] ^= 1
		if err := os.Chmod(name, 0o644); err != nil {
			t.Fatal(err)
		}

		write(t, name, string(blob))
	}

	provider := New(c.Socket())
	if _, err := get(t, provider, ref, "/f"); err == nil ||
		!strings.Contains(err.Error(), errDamaged.Error()) {
		t.Errorf("error %v, want %v", err, errDamaged)
	}

	if got, err := get(t, provider, ref, "/f"); err != nil || got != "1" {
		t.Errorf("%q, %v", got, err)
	}
}
