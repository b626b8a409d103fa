package cri_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/cri"
)

// wanted is a Config with every field set.
func wanted() cri.Config {
	return cri.Config{
		SandboxImage: "registry.site.local/pause:3.10",
		CgroupDriver: "systemd",
		Plugins: []cri.Plugin{
			{
				Path: []string{"io.containerd.grpc.v1.cri", "containerd", "runtimes", "gvisor"},
				Values: map[string]any{
					"runtime_type": "io.containerd.runsc.v1",
					"options":      map[string]any{"TypeUrl": "x"},
				},
			},
			{
				Path: []string{"io.containerd.grpc.v1.cri"},
				Values: map[string]any{
					"max_concurrent_downloads": float64(7), "disable_apparmor": true,
					"stream_server_port": "10010",
					"containerd":         map[string]any{"discard_unpacked_layers": true},
					"cni":                map[string]any{"max_conf_num": int64(3), "nothing": nil},
				},
			},
			{
				Path:   []string{"io.containerd.gc.v1.scheduler"},
				Values: map[string]any{"pause_threshold": 0.05},
			},
			{Remove: true, Path: []string{"io.containerd.internal.v1.opt"}},
		},
	}
}

// bases are images, by the golden file rendered for each.
func bases(t *testing.T) map[string]cri.Base {
	t.Helper()
	debian, err := os.ReadFile("testdata/debian.toml")
	if err != nil {
		t.Fatal(err)
	}
	return map[string]cri.Base{
		"schema-2.toml":          {Config: debian, Schema: 2},
		"schema-2-empty.toml":    {},
		"schema-3.toml":          {Schema: 3},
		"schema-3-bin-dirs.toml": {Schema: 3, BinDirs: true},
	}
}

func TestRenderGolden(t *testing.T) {
	for name, base := range bases(t) {
		t.Run(name, func(t *testing.T) {
			got, err := cri.Render(wanted(), base)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name, got)
		})
	}
}

func TestHostsGolden(t *testing.T) {
	golden(t, "hosts.toml", cri.Hosts(cri.Registry{
		Upstream: "docker.io",
		Server:   "https://registry-1.docker.io",
		Hosts: []cri.Host{
			{
				URL:     "https://z.site.local:5000",
				CACerts: []string{"/etc/ssl/site-ca.crt", "own.crt"},
			},
			{
				URL:          "http://a.site.local/v2/mirror",
				Capabilities: []string{"push"},
				OverridePath: true,
			},
		},
	}))
}

// golden compares got with a file of testdata, which LOAM_GOLDEN rewrites.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if os.Getenv("LOAM_GOLDEN") != "" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}
