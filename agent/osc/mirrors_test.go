package osc_test

import (
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/osc"
)

func TestAuthoritiesOfTheDocument(t *testing.T) {
	asked, err := osc.Decode("c", []byte(`apiVersion: extensions.gardener.cloud/v1alpha1
kind: OperatingSystemConfig
spec:
  files:
  - path: /var/lib/ca-certificates-local/registry-ca.crt
    content: {inline: {data: CA}}
  - path: /var/lib/ca-certificates-local/other.crt
    hostName: another
    content: {inline: {data: CA}}
  - path: /var/lib/ca-certificates-local/note.txt
    content: {inline: {data: CA}}
`))
	if err != nil {
		t.Fatal(err)
	}

	files, err := osc.Authorities(asked, osc.Env{Hostname: "this"})
	if err != nil || len(files) != 1 ||
		files[0].Path != "/var/lib/ca-certificates-local/registry-ca.crt" {
		t.Errorf("%v, %v", files, err)
	}
}

func TestMirrorsAreKnownBeforeTheyAreInPlace(t *testing.T) {
	asked, err := osc.Decode("c", []byte(`apiVersion: extensions.gardener.cloud/v1alpha1
kind: OperatingSystemConfig
spec:
  criConfig:
    name: containerd
    containerd:
      sandboxImage: a/pause:1
      registries:
      - upstream: docker.io
        hosts:
        - {url: "https://mirror.site.local", caCerts: [/etc/ssl/site.crt, /etc/ssl/there.crt]}
      - upstream: plain.local
        readinessProbe: true
        hosts:
        - {url: "http://10.0.0.1:5000"}
  files:
  - path: /etc/ssl/site.crt
    content: {inline: {data: CA}}
  - path: /etc/containerd/certs.d/quay.io/hosts.toml
    content:
      inline:
        data: |
          server = "https://a"
          ca = ["/etc/ssl/site.crt", "beside.crt", "/etc/ssl/there.crt"]
  - path: /etc/containerd/certs.d/quay.io/beside.crt
    content: {inline: {data: beside}}
  - path: /etc/containerd/certs.d/other.io/hosts.toml
    hostName: another
    content: {inline: {data: another node's}}
  - path: /etc/containerd/certs.d/ghcr.io/note.txt
    content: {inline: {data: no hosts.toml}}
`))
	if err != nil {
		t.Fatal(err)
	}

	files, probes, err := osc.Mirrors(asked, osc.Env{}, "/run/certs.d")
	if err != nil {
		t.Fatal(err)
	}

	got := map[string]string{}
	for _, f := range files {
		from, err := f.Content.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(from)
		if err != nil {
			t.Fatal(err)
		}
		got[f.Path] = string(text)
	}

	want := map[string]string{
		"/run/certs.d/_authorities/quay.io-file-3": "CA",
		"/run/certs.d/quay.io/beside.crt":          "beside",
		"/run/certs.d/quay.io/hosts.toml": "server = \"https://a\"\n" +
			"ca = [\"/run/certs.d/_authorities/quay.io-file-3\", \"beside.crt\", " +
			"\"/etc/ssl/there.crt\"]\n",
		"/run/certs.d/_authorities/docker.io-0-0.crt": "CA",
		"/run/certs.d/docker.io/hosts.toml": "# Written by Loam.\n\n" +
			"[host.\"https://mirror.site.local\"]\ncapabilities = [\"pull\", \"resolve\"]\n" +
			"ca = [\"/run/certs.d/_authorities/docker.io-0-0.crt\", \"/etc/ssl/there.crt\"]\n",
		"/run/certs.d/plain.local/hosts.toml": "# Written by Loam.\n\n" +
			"[host.\"http://10.0.0.1:5000\"]\ncapabilities = [\"pull\", \"resolve\"]\n",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("mirrors (-want +got):\n%s", diff)
	}

	waits := []config.Probe{{
		Path: "/run/certs.d/plain.local/hosts.toml",
		URLs: []string{"http://10.0.0.1:5000"},
	}}
	if diff := cmp.Diff(waits, probes); diff != "" {
		t.Errorf("probes (-want +got):\n%s", diff)
	}
}
