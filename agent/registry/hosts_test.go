package registry

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/osc"
	"github.com/loam-os/loam/test/cluster"
	"github.com/loam-os/loam/test/containerd"
)

func TestHosts(t *testing.T) {
	c := containerd.Start(t)
	secure := cluster.StartRegistry(t, cluster.RegistryOptions{TLS: true})
	secure.Push(t, "a/two:v1", two)
	plain := cluster.StartRegistry(t, cluster.RegistryOptions{})
	plain.Push(t, "a/two:v1", two)
	ca := filepath.Join(t.TempDir(), "ca.crt")
	write(t, ca, secure.CA())
	down := cluster.StartRegistry(t, cluster.RegistryOptions{})
	down.Stop(t)

	trusted := fmt.Sprintf("server = %q\n[host.%[1]q]\ncapabilities = [\"pull\", \"resolve\"]\n"+
		"ca = [%q]\n", secure.URL(), ca)
	for _, row := range []struct{ name, ref, hosts, err string }{
		{name: "TLS with an authority of hosts.toml", ref: secure.Address(), hosts: trusted},
		{
			name:  "a mirror for a registry that does not exist",
			ref:   "registry.example",
			hosts: trusted,
		},
		{
			name: "a mirror that is down, then the registry",
			ref:  plain.Address(),
			hosts: fmt.Sprintf("server = %q\n[host.%q]\ncapabilities = [\"pull\", \"resolve\"]\n",
				plain.URL(), down.URL()),
		},
		{
			name:  "TLS without the authority",
			ref:   secure.Address(),
			hosts: fmt.Sprintf("server = %q\n", secure.URL()),
			err:   "the registry " + secure.Address() + " is not trusted: ",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, row.ref, "hosts.toml"), row.hosts)
			provider := New(c.Socket(), t.TempDir(), dir)
			got, err := get(t, provider, row.ref+"/a/two:v1", "/bin/new")
			if row.err == "" && (err != nil || got != "new") {
				t.Errorf("%q, %v", got, err)
			}

			if row.err != "" && (err == nil || !strings.HasPrefix(err.Error(), row.err)) {
				t.Errorf("error %v, want %s", err, row.err)
			}
			if err := provider.Keep(context.WithoutCancel(t.Context()), nil); err != nil {
				t.Error(err)
			}
		})
	}
}

// A configuration may bring the authority of the registry that its own images
// are in.
func TestAuthoritiesOfANewConfiguration(t *testing.T) {
	c := containerd.Start(t)
	secure := cluster.StartRegistry(t, cluster.RegistryOptions{TLS: true})
	secure.Push(t, "a/two:v1", two)
	dir := t.TempDir() // Without a hosts.toml, every authority that this host trusts is accepted.
	write(t, filepath.Join(dir, secure.Address(), "hosts.toml"),
		fmt.Sprintf("server = %q\n", secure.URL()))

	provider := New(c.Socket(), dir)
	if _, err := get(t, provider, secure.Address()+"/a/two:v1", "/bin/new"); err == nil ||
		!strings.Contains(err.Error(), "is not trusted") {
		t.Errorf("without them: %v", err)
	}

	provider.Trust([]byte(secure.CA()))
	got, err := get(t, provider, secure.Address()+"/a/two:v1", "/bin/new")
	if err != nil || got != "new" {
		t.Errorf("%q, %v", got, err)
	}

	if err := provider.Keep(context.WithoutCancel(t.Context()), nil); err != nil {
		t.Error(err)
	}
}

// What is in place for one registry comes before what the next configuration has
// for all others, and that before what is in place for all others.
func TestTheNearestHosts(t *testing.T) {
	next, placed := t.TempDir(), t.TempDir()
	for _, name := range []string{
		next + "/a.b", next + "/_default", placed + "/a.b", placed + "/c.d_5000_", placed + "/_default",
	} {
		write(t, name+"/hosts.toml", "")
	}

	for host, want := range map[string]string{
		"a.b":      next + "/a.b",
		"c.d:5000": placed + "/c.d_5000_",
		"e.f":      next + "/_default",
	} {
		if got, err := New("/c.sock", next, placed).hostDir(host); got != want {
			t.Errorf("%s: %s, %v, want %s", host, got, err, want)
		}
	}

	if got, err := New("/c.sock", t.TempDir()).hostDir("a.b"); !errdefs.IsNotFound(err) {
		t.Errorf("none: %s, %v", got, err)
	}
}

func TestFiles(t *testing.T) {
	got := New("/c.sock",
		"/d").Files([]osc.Reference{{Secret: "a", Key: "b"}, {Image: "h:5/a/b", Path: "/x"}})
	want := []string{"/c.sock", "/d/_default/hosts.toml", "/d/h:5/hosts.toml", "/d/h_5_/hosts.toml"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := New("/c.sock", "/d").Files([]osc.Reference{{Secret: "a", Key: "b"}}); len(got) != 0 {
		t.Errorf("no image: %v", got)
	}
}

func TestReferences(t *testing.T) {
	for ref, want := range map[string]string{
		"a.b:5000/c/d:v1":     "a.b:5000/c/d:v1",
		"a.b/c":               "a.b/c:latest",
		"localhost/c:v1":      "localhost/c:v1",
		"c/d:v1":              "docker.io/c/d:v1",
		"d:v1":                "docker.io/library/d:v1",
		"docker.io/d":         "docker.io/library/d:latest",
		"a.b/c:v1@sha256:00":  "a.b/c:v1@sha256:00",
		"a.b/c@sha256:001122": "a.b/c@sha256:001122",
	} {
		spec, err := parse(ref)
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(want, spec.String()); diff != "" {
			t.Error(diff)
		}
	}
}
