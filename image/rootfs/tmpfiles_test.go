package rootfs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/test/files"
)

// TestTemporaryFilesAreCleared has systemd-tmpfiles clear a node, as its timer
// does each day. Everything is old enough, since a test cannot make it older.
func TestTemporaryFilesAreCleared(t *testing.T) {
	tree := toolsTree(t)
	config, err := os.ReadFile("../../mkosi/mkosi.extra/usr/lib/tmpfiles.d/loam.conf")
	if err != nil {
		t.Fatal(err)
	}
	aged := strings.ReplaceAll(string(config), "30d", "0")
	aged = strings.ReplaceAll(aged, "10d", "0")

	bootID, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	id := strings.ReplaceAll(strings.TrimSpace(string(bootID)), "-", "")

	root := t.TempDir()
	files.Write(t, filepath.Join(root, "usr/lib/tmpfiles.d/loam.conf"), aged)
	files.Write(t, filepath.Join(root, "etc/passwd"), "root:x:0:0::/root:/bin/sh\n")
	files.Write(t, filepath.Join(root, "etc/group"), "root:x:0:\nsystemd-journal:x:1:\n")
	keep := map[string]bool{
		"tmp/systemd-private-" + id + "-a.service-x/tmp": true,
		"tmp/old":                         false,
		"tmp/old-directory/b":             false,
		"tmp/systemd-private-other/tmp/f": false,
		"var/tmp/systemd-private-" + id + "-a.service-x/tmp": true,
		"var/tmp/old":               false,
		"var/tmp/old-directory/b/c": false,
		"var/log/journal/x":         true,
		"var/lib/kubelet/old":       true,
		"var/opt/old":               true,
	}
	for name, isKept := range keep {
		if strings.HasSuffix(name, "/tmp") && isKept {
			if err := os.MkdirAll(filepath.Join(root, name), 0o700); err != nil {
				t.Fatal(err)
			}
			continue
		}
		files.Write(t, filepath.Join(root, name), "x")
	}

	out, err := tree.Command(t.Context(), []string{root}, "systemd-tmpfiles", "--clean",
		"--root="+root).CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "" {
		t.Errorf("systemd-tmpfiles: %v\n%s", err, out)
	}

	is := map[string]bool{}
	for name := range keep {
		_, err := os.Lstat(filepath.Join(root, name))
		is[name] = err == nil
	}
	if diff := cmp.Diff(keep, is); diff != "" {
		t.Errorf("what is there (-want +got):\n%s", diff)
	}
}

// TestCalicoFindsItsDirectory makes the directories of a new node, in which a
// pod then makes what Calico's manifest asks for: a hostPath of type
// DirectoryOrCreate.
func TestCalicoFindsItsDirectory(t *testing.T) {
	tree := toolsTree(t)
	config, err := os.ReadFile("../../mkosi/mkosi.extra/usr/lib/tmpfiles.d/loam.conf")
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	files.Write(t, filepath.Join(root, "usr/lib/tmpfiles.d/loam.conf"), string(config))
	files.Write(t, filepath.Join(root, "etc/passwd"), "root:x:0:0::/root:/bin/sh\n")
	files.Write(t, filepath.Join(root, "etc/group"), "root:x:0:\nsystemd-journal:x:0:\n")
	if err := os.Mkdir(filepath.Join(root, "usr/libexec"), 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(root, "usr/libexec/kubernetes")
	if err := os.Symlink("../../var/usrlibexec/kubernetes", link); err != nil {
		t.Fatal(err)
	}

	out, err := tree.Command(t.Context(), []string{root}, "systemd-tmpfiles", "--create",
		"--root="+root).CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "" {
		t.Errorf("systemd-tmpfiles: %v\n%s", err, out)
	}
	plugins := filepath.Join(link, "kubelet-plugins/volume/exec/nodeagent~uds")
	if err := os.MkdirAll(plugins, 0o755); err != nil {
		t.Error(err)
	}
}
