package cri_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/cri"
)

// decode turns any JSON text into a Config.
func decode(text []byte) (config cri.Config) {
	if json.Unmarshal(text, &config) != nil {
		return cri.Config{}
	}
	return config
}

// The order of hosts is the order in which containerd tries them.
func TestHostsKeepTheirOrder(t *testing.T) {
	text := cri.Hosts(cri.Registry{Hosts: []cri.Host{{URL: "https://z"}, {URL: "https://a"}}})
	z := strings.Index(text, `[host."https://z"]`)
	a := strings.Index(text, `[host."https://a"]`)
	if z < 0 || a < z {
		t.Errorf("hosts out of order in\n%s", text)
	}
}

func TestRegistryFiles(t *testing.T) {
	registry := cri.Registry{
		Upstream: "a.b:5000",
		Hosts: []cri.Host{
			{CACerts: []string{"/x.crt", "ca/y.crt"}},
			{CACerts: []string{"z.crt"}},
		},
	}
	if got, want := registry.File(), "/etc/containerd/certs.d/a.b:5000/hosts.toml"; got != want {
		t.Errorf("File() = %s, want %s", got, want)
	}

	want := []string{
		"/x.crt", "/etc/containerd/certs.d/a.b:5000/ca/y.crt",
		"/etc/containerd/certs.d/a.b:5000/z.crt",
	}
	if diff := cmp.Diff(want, registry.CACerts()); diff != "" {
		t.Errorf("CACerts (-want +got):\n%s", diff)
	}
}

// FuzzHosts checks that no text breaks out of its quotes.
func FuzzHosts(f *testing.F) {
	f.Add("https://a", "/ca.crt")
	f.Add("\"]\nserver = 'x'\n\x7f\\u0000", "\x00\r\u2028😀")

	f.Fuzz(func(t *testing.T, url, file string) {
		if !utf8.ValidString(url) || !utf8.ValidString(file) {
			return // A document is UTF-8.
		}

		text := cri.Hosts(cri.Registry{
			Server: url,
			Hosts:  []cri.Host{{URL: url, CACerts: []string{file}, OverridePath: true}},
		})

		want := map[string]any{
			"capabilities":  []any{"pull", "resolve"},
			"ca":            []any{file},
			"override_path": true,
		}
		if diff := cmp.Diff(want, get(t, text, "host", url)); diff != "" {
			t.Errorf("host (-want +got):\n%s", diff)
		}

		if got := get(t, text, "server"); url != "" && got != url {
			t.Errorf("server %q, want %q", got, url)
		}
	})
}
