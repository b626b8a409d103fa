package rootfs

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/loam-os/loam/image/tools"
)

// rootTree is the root tree that LOAM_ROOT_TREE names, which make sets.
func rootTree(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("LOAM_ROOT_TREE")
	switch {
	case dir == "" && os.Getenv("CI") != "":
		t.Fatal("LOAM_ROOT_TREE is not set")
	case dir == "":
		t.Skip("LOAM_ROOT_TREE is not set")
	}
	return dir
}

func TestTreeLinks(t *testing.T) {
	root := rootTree(t)
	for path, want := range map[string]string{
		"home": "var/home", "opt": "var/opt", "root": "var/roothome", "srv": "var/srv",
		"usr/local": "../var/usrlocal", "etc/os-release": "../usr/lib/os-release",
		"etc/resolv.conf": "../run/systemd/resolve/resolv.conf",
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

func TestTreeHasNoLogin(t *testing.T) {
	root := rootTree(t)
	shadow, err := os.ReadFile(filepath.Join(root, "etc/shadow"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(shadow)) {
		if field := strings.Split(line, ":"); !strings.HasPrefix(field[1], "*") && !strings.HasPrefix(field[1], "!") {
			t.Errorf("%s has a password or needs none", field[0])
		}
	}
}

func TestTreeHasNo(t *testing.T) {
	root := rootTree(t)
	unwanted := regexp.MustCompile(`/(authorized_keys.*|ssh_host_.*|dpkg|apt-get|perl|python3|sshd|.*getty@?\.service|debug-shell\.service)$`)
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && unwanted.MatchString(path) {
			t.Errorf("%s is in the tree", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if id, err := os.ReadFile(filepath.Join(root, "etc/machine-id")); err != nil || len(id) > 0 {
		t.Errorf("etc/machine-id holds %q, %v, want an empty file", id, err)
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
	for _, pattern := range []string{"usr/lib/systemd/system/*.wants/*", "usr/lib/systemd/system/*.requires/*", "etc/systemd/system/*/*"} {
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
	root, tree := rootTree(t), toolsTree(t)
	cmd := tree.Command(t.Context(), []string{root}, "systemd-analyze", "verify", "--man=no", "--root="+root,
		"loam-agent.service", "loam-debug-shell@ttyS0.service")
	out, err := cmd.CombinedOutput()
	// The binary comes with the image, not with the tree.
	complaint := strings.ReplaceAll(string(out), "loam-agent.service: Command /usr/bin/loam is not executable: No such file or directory", "")
	if strings.TrimSpace(complaint) != "" {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

// TestTreeIsReproducible builds the tree twice; it takes minutes and needs the
// network unless the packages are in the cache.
func TestTreeIsReproducible(t *testing.T) {
	tree := toolsTree(t)
	if testing.Short() || os.Geteuid() != 0 {
		t.Skip("two builds of the root tree: not in short mode, only as root")
	}
	config, err := filepath.Abs("../../mkosi")
	if err != nil {
		t.Fatal(err)
	}
	if tree.Sources, err = sources(t); err != nil {
		t.Fatal(err)
	}
	var digests [2]string
	for i := range digests {
		p := Params{Cache: t.TempDir(), Config: config, Arch: "amd64", Profile: "cloud", SourceDateEpoch: 1735689600, Log: io.Discard}
		root, err := Tree(t.Context(), tree, p)
		if err != nil {
			t.Fatal(err)
		}
		digests[i] = digest(t, root.Dir)
	}
	if digests[0] != digests[1] {
		t.Errorf("two trees from the same inputs differ: %s, %s", digests[0], digests[1])
	}
}

func sources(t *testing.T) ([]tools.Source, error) {
	mirrors, err := tools.HostMirrors(t.Context())
	return tools.Mirror(mirrors...), err
}
