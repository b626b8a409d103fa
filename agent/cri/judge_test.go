package cri_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/cri"
	"github.com/loam-os/loam/test/judge"
)

// The image's containerd reads the configuration rendered from the image's own
// file.
func TestContainerdReadsIt(t *testing.T) {
	tree := judge.Dir(t, "LOAM_ROOT_TREE")
	base, err := cri.Observe(open(t, tree))
	if err != nil {
		t.Fatal(err)
	}

	if base.Schema != 3 || !base.BinDirs || len(base.Config) == 0 {
		t.Errorf("the image has schema %d, bin_dirs %v and %d bytes of configuration",
			base.Schema, base.BinDirs, len(base.Config))
	}

	text, err := cri.Render(wanted(), base)
	if err != nil {
		t.Fatal(err)
	}

	file := filepath.Join(t.TempDir(), "config.toml")
	// An extension may drop in a file of the older schema.
	text = strings.ReplaceAll(text, "/etc/containerd/conf.d", filepath.Dir(file)+"/conf.d")
	dropIn := filepath.Join(filepath.Dir(file), "conf.d", "extension.toml")
	err = errors.Join(
		os.Mkdir(filepath.Dir(dropIn), 0o755),
		os.WriteFile(file, []byte(text), 0o644),
		os.WriteFile(dropIn, []byte("version = 2\n[plugins.'"+v2+
			"'.containerd.runtimes.extension]\nruntime_type = 'io.containerd.extension.v1'\n"), 0o644),
	)
	if err != nil {
		t.Fatal(err)
	}

	out, err := exec.Command(filepath.Join(tree, "usr/bin/containerd"), "--config", file, "config",
		"dump").Output()
	if err != nil {
		t.Fatalf("containerd config dump: %v", err)
	}

	runtimes := []string{runtime, "containerd", "runtimes"}
	for _, test := range []struct {
		path []string
		want any
	}{
		{[]string{images, "registry", "config_path"}, cri.HostsDir},
		{[]string{images, "pinned_images", "sandbox"}, "registry.site.local/pause:3.10"},
		{[]string{runtime, "cni", "bin_dirs"}, []any{"/opt/cni/bin"}},
		{[]string{runtime, "cni", "conf_dir"}, "/etc/cni/net.d"},
		{[]string{runtime, "cni", "max_conf_num"}, int64(3)},
		{[]string{images, "max_concurrent_downloads"}, int64(7)},
		{append(runtimes, "runc", "runtime_type"), "io.containerd.runc.v2"},
		{append(runtimes, "runc", "options", "SystemdCgroup"), true},
		{append(runtimes, "gvisor", "runtime_type"), "io.containerd.runsc.v1"},
		{append(runtimes, "extension", "runtime_type"), "io.containerd.extension.v1"},
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
