package registry

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/test/cluster"
	"github.com/loam-os/loam/test/containerd"
)

// Wrong bytes from a registry are detected, and a later pull succeeds.
func TestWrongBytesAreRefused(t *testing.T) {
	c := containerd.Start(t)
	r := cluster.StartRegistry(t, cluster.RegistryOptions{})
	f := newFront(t, r)
	manifest := r.Push(t, "a/two:v1", two)
	for _, kind := range []string{"/manifests/", "/blobs/"} {
		f.spoilWith(func(w http.ResponseWriter, q *http.Request) bool {
			if q.Method != http.MethodGet || !strings.Contains(q.URL.Path, kind) {
				return false
			}
			body := r.Get(t, strings.TrimPrefix(q.URL.Path, "/v2/"))
			body[len(body)-1] ^= 1
			_, _ = w.Write(body)
			return true
		})
		provider := New(c.Socket())
		_, err := get(t, provider, f.host()+"/a/two@"+manifest, "/bin/new")
		if err == nil || !strings.Contains(err.Error(), "unexpected commit digest") {
			t.Errorf("%s: error %v", kind, err)
		}
	}

	f.spoilWith(nil)
	if _, err := get(t, New(c.Socket()), f.host()+"/a/two@"+manifest, "/bin/new"); err != nil {
		t.Error(err)
	}
}

func TestContainerdIsAbsent(t *testing.T) {
	c := containerd.New(t)
	r := cluster.StartRegistry(t, cluster.RegistryOptions{})
	r.Push(t, "a/two:v1", two)
	provider := New(c.Socket())
	ref := r.Address() + "/a/two:v1"
	_, err := get(t, provider, ref, "/bin/new")
	want := "containerd does not answer: dial unix " + c.Socket() +
		": connect: no such file or directory; hint: the agent retries; systemctl status containerd"
	if !errors.Is(err, ErrNotRunning) || hint.Line(err) != want {
		t.Errorf("error %v, want %s", err, want)
	}

	c.Run(t)
	file, err := provider.Image(t.Context(), ref, "/bin/new")
	if err != nil {
		t.Fatal(err)
	}

	c.Stop()
	if _, err := file.Open(); !errors.Is(err, ErrNotRunning) {
		t.Errorf("open without containerd: %v", err)
	}

	c.Run(t) // The pulled image is still there without its registry.
	r.Stop(t)

	if got, err := get(t, provider, ref, "/bin/new"); err != nil || got != "new" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestInterruptedPullResumes(t *testing.T) {
	c := containerd.Start(t)
	r := cluster.StartRegistry(t, cluster.RegistryOptions{})
	f := newFront(t, r)
	r.Push(t, "a/kubelet:v1",
		cluster.Image{Layers: []cluster.Layer{
			{"kubelet": {Content: large(8 << 20)}},
			{"f": text("1")},
		}})

	ref := f.host() + "/a/kubelet:v1"
	f.stopInTheMiddle(t, r)
	provider := New(c.Socket())
	_, err := provider.Image(t.Context(), ref, "/kubelet")
	if err == nil {
		t.Fatal("half an image was pulled")
	}

	if n := names(t, provider, namespace); len(n) != 0 {
		t.Errorf("half an image is there as %q", n)
	}
	if _, err := provider.Image(t.Context(), ref, "/kubelet"); err == nil {
		t.Fatal("half an image was used")
	}

	c.Stop() // A power cut does not restart the pull from the beginning either.
	c.Run(t)
	r.Start(t)
	f.asked("")

	got, err := get(t, provider, ref, "/kubelet")
	if err != nil || !bytes.Equal([]byte(got), large(8<<20)) {
		t.Errorf("%d bytes, %v", len(got), err)
	}

	f.mu.Lock()
	defer f.mu.Unlock()

	all := strings.Join(f.requests, "\n")
	if strings.Count(all, "bytes=") != 1 || strings.Contains(all, "bytes=0-") {
		t.Errorf("the layer was fetched from its beginning:\n%s", all)
	}
}

// Keep removes what an unfinished pull left, once no reference needs it.
func TestKeepRemovesAnUnfinishedPull(t *testing.T) {
	c := containerd.Start(t)
	r := cluster.StartRegistry(t, cluster.RegistryOptions{})
	f := newFront(t, r)
	r.Push(t, "a/kubelet:v1",
		cluster.Image{Layers: []cluster.Layer{{"kubelet": {Content: large(8 << 20)}}}})
	f.stopInTheMiddle(t, r)

	provider := New(c.Socket())
	if _, err := provider.Image(t.Context(), f.host()+"/a/kubelet:v1", "/kubelet"); err == nil {
		t.Fatal("half an image was pulled")
	}

	expect := func(want int) {
		t.Helper()
		ctx, s := connected(t, provider, namespace)
		begun, err := s.content.ListStatuses(ctx)
		if err != nil || len(begun) != want {
			t.Errorf("%d blobs are half there, %v, want %d", len(begun), err, want)
		}
	}

	if err := provider.Keep(t.Context(), nil); err != nil {
		t.Error(err)
	}

	expect(1) // It was requested since Follow.
	provider.Follow(nil)

	if err := provider.Keep(t.Context(), nil); err != nil {
		t.Error(err)
	}

	expect(0)
	if n := blobs(t, provider, namespace); n != 0 {
		t.Errorf("%d blobs are left", n)
	}
}
