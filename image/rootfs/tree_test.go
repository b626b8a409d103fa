package rootfs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/loam-os/loam/image/tools"
	"github.com/loam-os/loam/test/judge"
)

// rootTree is the root tree that LOAM_ROOT_TREE names, which make sets.
func rootTree(t *testing.T) string {
	t.Helper()
	return judge.Dir(t, "LOAM_ROOT_TREE")
}

func TestTreeLinks(t *testing.T) {
	root := rootTree(t)
	for path, want := range map[string]string{
		"home": "var/home", "opt": "var/opt", "root": "var/roothome", "srv": "var/srv",
		"usr/local": "../var/usrlocal", "etc/os-release": "../usr/lib/os-release",
		"usr/libexec/kubernetes": "../../var/usrlibexec/kubernetes",
		"etc/resolv.conf":        "../run/systemd/resolve/resolv.conf",
	} {
		if got, err := os.Readlink(filepath.Join(root, path)); err != nil || got != want {
			t.Errorf("%s -> %s, %v, want %s", path, got, err, want)
		}
	}
}

func TestTreeHasMountPoints(t *testing.T) {
	root := rootTree(t)
	for _, path := range []string{"dev", "efi", "proc", "run", "sys", "tmp", "var"} {
		if entries, err := os.ReadDir(filepath.Join(root, path)); err != nil || len(entries) > 0 {
			t.Errorf("/%s: %d entries, %v, want an empty directory", path, len(entries), err)
		}
	}
}

// TestTreeStartsOnlyWhatIsListed compares the links of enablement with
// units.list.
func TestTreeStartsOnlyWhatIsListed(t *testing.T) {
	root := rootTree(t)
	list, err := tools.ReadList("../../mkosi/units.list")
	if err != nil {
		t.Fatal(err)
	}

	listed := map[string]bool{}
	for _, line := range list {
		field := strings.Fields(line)
		listed[field[1]+".wants/"+field[0]] = true
	}

	for _, pattern := range []string{
		"usr/lib/systemd/system/*.wants/*", "usr/lib/systemd/system/*.requires/*",
		"etc/systemd/system/*/*",
	} {
		links, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range links {
			name := filepath.Base(filepath.Dir(link)) + "/" + filepath.Base(link)
			if !listed[name] {
				t.Errorf("%s is not in units.list", name)
			}
			delete(listed, name)
		}
	}

	for name := range listed {
		t.Errorf("%s is in units.list, not in the tree", name)
	}
}

// TestUnitsVerify has systemd-analyze judge the units of Loam.
func TestUnitsVerify(t *testing.T) {
	root := rootTree(t)
	tree := toolsTree(t)
	cmd := tree.Command(t.Context(), []string{root}, "systemd-analyze", "verify",
		"--man=no", "--root="+root, "loam-agent.service", "loam-debug-shell@ttyS0.service")
	out, err := cmd.CombinedOutput()

	// The binary comes with the image, not with the tree.
	complaint := strings.ReplaceAll(string(out),
		"loam-agent.service: Command /usr/bin/loam is not executable: "+
			"No such file or directory", "")
	if strings.TrimSpace(complaint) != "" {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

// TestGoProgramsAreFound: what the image runs of Go, by the name of its file.
func TestGoProgramsAreFound(t *testing.T) {
	root := rootTree(t)
	programs, err := Root{Dir: root}.GoPrograms()
	if err != nil {
		t.Fatal(err)
	}

	for _, want := range []string{
		"usr/bin/containerd", "usr/bin/containerd-shim-runc-v2", "usr/bin/runc",
		"usr/lib/cni/bridge",
	} {
		if !slices.Contains(programs, filepath.Join(root, want)) {
			t.Errorf("no %s among %d programs", want, len(programs))
		}
	}
}
