package cri_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/cri"
	"github.com/loam-os/loam/test/judge"
)

// The image's containerd reads what is rendered from the image's own file.
func TestContainerdReadsIt(t *testing.T) {
	tree := judge.Dir(t, "LOAM_ROOT_TREE")
	base, err := cri.Observe(open(t, tree))
	if err != nil {
		t.Fatal(err)
	}

	if base.Schema != 2 || len(base.Config) == 0 {
		t.Errorf("the image has schema %d and %d bytes of configuration",
			base.Schema, len(base.Config))
	}

	text, err := cri.Render(wanted(), base)
	if err != nil {
		t.Fatal(err)
	}

	file := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}

	out, err := exec.Command(filepath.Join(tree, "usr/bin/containerd"), "--config", file, "config",
		"dump").Output()
	if err != nil {
		t.Fatalf("containerd config dump: %v", err)
	}

	runtimes := []string{v2, "containerd", "runtimes"}
	for _, test := range []struct {
		path []string
		want any
	}{
		{[]string{v2, "registry", "config_path"}, cri.HostsDir},
		{[]string{v2, "sandbox_image"}, "registry.site.local/pause:3.10"},
		{[]string{v2, "cni", "bin_dir"}, "/opt/cni/bin"},
		{[]string{v2, "cni", "max_conf_num"}, int64(3)},
		{[]string{v2, "max_concurrent_downloads"}, int64(7)},
		{append(runtimes, "runc", "runtime_type"), "io.containerd.runc.v2"},
		{append(runtimes, "runc", "options", "SystemdCgroup"), true},
		{append(runtimes, "gvisor", "runtime_type"), "io.containerd.runsc.v1"},
		{append(runtimes, "gvisor", "options", "TypeUrl"), "x"},
		{[]string{"io.containerd.gc.v1.scheduler", "pause_threshold"}, 0.05},
	} {
		diff := cmp.Diff(test.want,
			get(t, string(out), append([]string{"plugins"}, test.path...)...))
		if diff != "" {
			t.Errorf("%q (-want +got):\n%s", test.path, diff)
		}
	}
}
