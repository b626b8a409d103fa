package osc_test

import (
	"net/url"
	"path/filepath"
	"testing"

	"github.com/containerd/containerd/v2/core/remotes/docker/config"

	"github.com/loam-os/loam/agent/osc"
)

// TestContainerdReadsMirrors has containerd's own code read the URLs of mirrors
// as they are written for it. An operator is told of those that it would
// misread, and a document from a cluster has them mended.
func TestContainerdReadsMirrors(t *testing.T) {
	for _, test := range []struct {
		url, want string
		short     bool
	}{
		{url: "https://m", want: "https://m/v2", short: true},
		{url: "https://m/", want: "https://m/v2"},
		{url: "https://m//", want: "https://m/v2"},
		{url: "HTTPS://M", want: "https://m/v2"},
		{url: "Http://Mirror.Example:5000/", want: "http://mirror.example:5000/v2"},
		{url: "https://m:", want: "https://m/v2"},
		{url: "https://m/v2", want: "https://m/v2", short: true},
		{url: "https://m/v2/", want: "https://m/v2"},
		{url: "https://m/a/./b/../c/", want: "https://m/a/c/v2"},
		{url: "https://m/Proxy/docker.io", want: "https://m/Proxy/docker.io/v2", short: true},
		{url: "https://[2001:DB8::1]:5000/", want: "https://[2001:db8::1]:5000/v2"},
	} {
		text := mirror("url: '" + test.url + "', capabilities: [pull]")
		if err := mergeText(text, osc.Env{}); (err == nil) != test.short {
			t.Errorf("%s: %v, want it accepted: %t", test.url, err, test.short)
		}

		decoded, wrong := osc.Decode("c", []byte(text))
		if err := osc.Check(wrong, decoded, osc.Env{}); !accepts(err) {
			t.Errorf("%s from a cluster: %v", test.url, err)
			continue
		}

		dir := t.TempDir()
		files, _, err := osc.Mirrors(decoded, osc.Env{}, dir)
		if err != nil || len(files) != 1 {
			t.Fatalf("%s: %v, %v", test.url, files, err)
		}
		place(t, "/", files[0].Path, read(t, files[0].Content), 0o644)

		hosts, err := config.ConfigureHosts(t.Context(), config.HostOptions{
			HostDir: func(string) (string, error) { return filepath.Dir(files[0].Path), nil },
		})("any.example")
		if err != nil || len(hosts) == 0 {
			t.Fatalf("%s: %v, %v", test.url, hosts, err)
		}
		have := (&url.URL{Scheme: hosts[0].Scheme, Host: hosts[0].Host, Path: hosts[0].Path}).String()
		if have != test.want {
			t.Errorf("%s: containerd asks %s, want %s", test.url, have, test.want)
		}
	}
}
