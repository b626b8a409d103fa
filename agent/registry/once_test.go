package registry

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/test/cluster"
	"github.com/loam-os/loam/test/containerd"
)

func TestImageIsPulledOnce(t *testing.T) {
	c := containerd.Start(t)
	r := cluster.StartRegistry(t, cluster.RegistryOptions{})
	f := newFront(t, r)
	manifest := r.Push(t, "a/two:v1", two)
	provider := New(c.Socket())
	ref := f.host() + "/a/two:v1"
	var group sync.WaitGroup
	for _, path := range []string{"/bin/new", "/bin/old", "/etc/conf/a", "/sbin/tool"} {
		group.Go(func() {
			if _, err := get(t, provider, ref, path); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		})
	}

	group.Wait()
	f.mu.Lock()
	all := strings.Join(f.requests, "\n")
	f.mu.Unlock()

	if n := f.asked("GET "); n != 4 { // manifest, configuration, two layers
		t.Errorf("%d blobs and manifests fetched, want 4:\n%s", n, all)
	}
	if strings.Count(all, "HEAD ") != 1 {
		t.Errorf("the tag was not resolved once:\n%s", all)
	}

	provider.Follow(nil)
	if _, err := get(t, provider, ref, "/bin/new"); err != nil {
		t.Error(err)
	}
	if n := f.asked("HEAD "); n != 1 {
		t.Errorf("a new look asked %d times for the tag, want once and nothing else", n)
	}

	for _, again := range []*Registry{provider, New(c.Socket())} {
		if _, err := get(t, again, f.host()+"/a/two@"+manifest, "/bin/new"); err != nil {
			t.Error(err)
		}
		if n := f.asked(""); n != 0 {
			t.Errorf("a digest that is there: %d requests, want none", n)
		}
	}
}

// A tag is resolved once between two calls of Follow.
func TestMovedTag(t *testing.T) {
	c := containerd.Start(t)
	r := cluster.StartRegistry(t, cluster.RegistryOptions{})
	provider := New(c.Socket())
	ref := r.Address() + "/a/b:v1"
	push := func(s string) {
		r.Push(t, "a/b:v1", cluster.Image{Layers: []cluster.Layer{{"f": text(s), "g": text(s)}}})
	}

	expect := func(want string) {
		t.Helper()
		for _, path := range []string{"/f", "/g"} {
			if got, err := get(t, provider, ref, path); err != nil || got != want {
				t.Errorf("%s: %q, %v, want %q", path, got, err, want)
			}
		}
	}

	push("1")
	expect("1")
	push("2")
	expect("1")
	provider.Follow(nil)
	expect("2")
	r.Stop(t)
	provider.Follow(nil)
	expect("2") // The tag's latest image.
	provider = New(c.Socket())
	expect("2")

	_, err := get(t, provider, r.Address()+"/a/b:v2", "/f")
	if err == nil ||
		!strings.HasPrefix(err.Error(), "the registry "+r.Address()+" cannot be reached: ") ||
		!strings.Contains(hint.Line(err),
			"connection refused; hint: the agent retries; its mirrors are in ") {
		t.Errorf("a tag that was never resolved: %v", err)
	}
}

// The registry's answer counts; without one the tag stays as it was.
func TestAnswersOfARegistry(t *testing.T) {
	c := containerd.Start(t)
	r := cluster.StartRegistry(t, cluster.RegistryOptions{})
	f := newFront(t, r)
	r.Push(t, "a/b:v1", cluster.Image{Layers: []cluster.Layer{{"f": text("1")}}})
	provider := New(c.Socket())
	ref := f.host() + "/a/b:v1"
	if _, err := get(t, provider, ref, "/f"); err != nil {
		t.Fatal(err)
	}

	for _, row := range []struct {
		status int
		err    string
	}{
		{
			status: http.StatusNotFound,
			err:    "the registry " + f.host() + " has no such image: not found",
		},
		{status: http.StatusForbidden, err: "the registry " + f.host() + " refuses: "},
		{status: http.StatusUnauthorized, err: "the registry " + f.host() + " refuses: "},
		{status: http.StatusServiceUnavailable},
		{status: http.StatusBadGateway},
	} {
		t.Run(http.StatusText(row.status), func(t *testing.T) {
			f.spoilWith(func(w http.ResponseWriter, _ *http.Request) bool {
				w.WriteHeader(row.status)
				return true
			})

			provider.Follow(nil)
			got, err := get(t, provider, ref, "/f")
			if row.err == "" && (err != nil || got != "1") {
				t.Errorf("%q, %v, want what the tag named last", got, err)
			}

			if row.err != "" && (err == nil || !strings.HasPrefix(err.Error(), row.err)) {
				t.Errorf("error %v, want %s", err, row.err)
			}
		})
	}
}
