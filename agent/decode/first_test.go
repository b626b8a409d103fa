package decode

import (
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/osc"
	"github.com/loam-os/loam/agent/registry"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/test/cluster"
	"github.com/loam-os/loam/test/containerd"
	"github.com/loam-os/loam/test/files"
	"github.com/loam-os/loam/test/shoot"
)

// puller is the Images of an empty node, with the real containerd, which does
// not run yet, and the Decoder that uses them.
func puller(t *testing.T) (*Images, Decoder) {
	t.Helper()
	runtime := containerd.New(t)
	machine, err := os.OpenRoot("/")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { machine.Close() })

	// The host's own mirrors must not matter.
	hosts := t.TempDir()
	i := NewImages(durable.New(machine, nil), hosts, ImagePolicy{},
		func(context.Context, string) error { runtime.Run(t); return nil })
	i.registry = registry.New(runtime.Socket(), hosts)

	return i, Decoder{
		Hostname: "node-1",
		Image:    files.Root(t),
		Contents: i,
		Follow:   i.Follow,
		Prepare:  i.Prepare,
	}
}

// A registry that only the configuration itself makes known: by an authority
// that the machine will trust, or as a mirror with an authority of its own. The
// image is pulled before one file is in place.
func TestTheFirstConfigurationBringsItsRegistry(t *testing.T) {
	private := cluster.StartRegistry(t, cluster.RegistryOptions{TLS: true})
	private.Push(t, "a/tool:v1", cluster.Image{Layers: []cluster.Layer{
		{"bin/tool": {Content: []byte("tool"), Mode: 0o755}},
	}})

	plain := base64.StdEncoding.EncodeToString([]byte(`server = "` + private.URL() + `"
ca = "/etc/site/ca.crt"
`))
	for _, row := range []struct{ name, registry, authority, more, err string }{
		{
			name:      "an authority of the machine",
			registry:  `server: "` + private.URL() + `"`,
			authority: "/var/lib/ca-certificates-local/registry-ca.crt",
		},
		{
			name: "a mirror, beside its hosts.toml",
			registry: `server: "https://registry.invalid", hosts: [{url: "` + private.URL() +
				`", caCerts: [/etc/containerd/certs.d/registry.invalid/site-ca-bundle.pem]}]`,
			authority: "/etc/containerd/certs.d/registry.invalid/site-ca-bundle.pem",
		},
		{
			name:      "a file of the document that is a hosts.toml",
			registry:  `server: "https://other.invalid"`,
			authority: "/etc/site/ca.crt",
			more: `
  - path: /etc/containerd/certs.d/registry.invalid/hosts.toml
    content: {inline: {encoding: b64, data: ` + plain + `}}
`,
		},
		{
			name:      "nothing makes it trusted",
			registry:  `server: "` + private.URL() + `"`,
			authority: "/etc/site/ca.crt",
			err:       "is not trusted",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, d := puller(t)
			upstream := "registry.invalid"
			if row.more != "" { // The file is for that one.
				upstream = "other.invalid"
			}
			desired, err := d.Decode(t.Context(), source.Document{Name: "osc.yaml", Text: []byte(
				`apiVersion: extensions.gardener.cloud/v1alpha1
kind: OperatingSystemConfig
spec:
  criConfig:
    name: containerd
    containerd:
      sandboxImage: registry.invalid/pause:3.10
      registries: [{upstream: ` + upstream + `, ` + row.registry + `}]
  files:
  - path: /opt/bin/tool
    permissions: 0755
    content: {imageRef: {image: "registry.invalid/a/tool:v1", filePathInImage: /bin/tool}}
  - path: ` + row.authority + `
    content: {inline: {encoding: b64, data: ` +
					base64.StdEncoding.EncodeToString([]byte(private.CA())) + `}}
` + row.more)})
			if row.err != "" {
				if err == nil || !strings.Contains(err.Error(), row.err) {
					t.Errorf("%v, want %s", err, row.err)
				}
				return
			}
			if err != nil {
				t.Fatalf("%v; %s", err, hint.Of(err))
			}

			if got := contentOf(t, desired, "/opt/bin/tool"); got != "tool" {
				t.Errorf("the file of the image is %q", got)
			}
			if got := contentOf(t, desired, row.authority); got != private.CA() {
				t.Errorf("the authority is %q", got)
			}
		})
	}
}

// A cache in the cluster is asked for no image before it answers.
func TestTheFirstPullIsNotFromACacheThatDoesNotAnswer(t *testing.T) {
	upstream := cluster.StartRegistry(t, cluster.RegistryOptions{})
	upstream.Push(t, "a/tool:v1", cluster.Image{Layers: []cluster.Layer{
		{"bin/tool": {Content: []byte("tool"), Mode: 0o755}},
	}})

	var asked atomic.Int32
	cache := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		http.NotFound(w, nil)
	}))
	defer cache.Close()

	i, d := puller(t)
	down := io.ErrUnexpectedEOF
	i.reach = func(context.Context, config.Probe) error { return down }

	doc := source.Document{Name: "osc.yaml", Text: []byte(
		`apiVersion: extensions.gardener.cloud/v1alpha1
kind: OperatingSystemConfig
spec:
  criConfig:
    name: containerd
    containerd:
      sandboxImage: registry.invalid/pause:3.10
      registries:
      - upstream: ` + upstream.Address() + `
        server: "` + upstream.URL() + `"
        readinessProbe: true
        hosts: [{url: "` + cache.URL + `"}]
  files:
  - path: /opt/bin/tool
    content: {imageRef: {image: "` + upstream.Address() + `/a/tool:v1", filePathInImage: /bin/tool}}
`)}
	for _, answers := range []bool{false, true} {
		if answers {
			down = nil
		}
		desired, err := d.Decode(t.Context(), doc)
		if err != nil {
			t.Fatalf("it answers %t: %v; %s", answers, err, hint.Of(err))
		}
		if got := contentOf(t, desired, "/opt/bin/tool"); got != "tool" {
			t.Errorf("it answers %t: the file of the image is %q", answers, got)
		}
		if got := asked.Load() > 0; got != answers {
			t.Errorf("it answers %t, and is asked %t", answers, got)
		}
	}
}

// Gardener's own documents, for a landscape whose registry has an authority of
// its own (registry-ca-bundle), and with mirrors: the kubelet's image is pulled
// from there before anything of the document is in place.
func TestGardenersFirstDocumentBringsItsRegistry(t *testing.T) {
	private := cluster.StartRegistry(t, cluster.RegistryOptions{TLS: true})
	landscape := shoot.Environment{
		Server:     "https://api.example.com",
		CA:         private.CA(),
		Registry:   private.URL(),
		RegistryCA: private.CA(),
	}

	documents := shoot.Documents(t)
	for _, document := range documents {
		if document.Kind != shoot.Reconcile || document.Name != "registry-ca" {
			continue
		}

		text, err := landscape.Original(document)
		if err != nil {
			t.Fatal(err)
		}
		i, d := puller(t)
		parsed, err := osc.Decode("osc.yaml", text)
		if err != nil {
			t.Fatal(err)
		}
		pulled := map[string]string{}
		for _, r := range osc.References(parsed, osc.Env{Hostname: d.Hostname}) {
			_, name, _ := strings.Cut(r.Image, "/")
			pulled[r.Path] = r.Image + " " + r.Path
			private.Push(t, name, cluster.Image{Layers: []cluster.Layer{
				{strings.TrimPrefix(r.Path, "/"): {Content: []byte(pulled[r.Path]), Mode: 0o755}},
			}})
		}

		desired, err := d.Decode(t.Context(),
			source.Document{Name: "osc.yaml", Text: text, FromCluster: true})
		if err != nil {
			t.Fatalf("%v; %s", err, hint.Of(err))
		}
		if got, want := contentOf(t, desired, "/opt/bin/kubelet"), pulled["/kubelet"]; got != want ||
			want == "" {
			t.Errorf("the kubelet is %q, want %q", got, want)
		}
		if len(i.refs) < 2 {
			t.Errorf("only the images %q", i.refs)
		}
		return
	}
	t.Errorf("none of %d documents is for a private registry", len(documents))
}

func contentOf(t *testing.T, desired config.Desired, path string) string {
	t.Helper()
	for _, file := range desired.Files {
		if file.Path == path {
			text, err := read(file)
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
	}
	t.Errorf("no file %s", path)
	return ""
}
