package image

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/test/judge"
)

// TestSecondBuildIsTheSame builds everything again: root tree, loam, images,
// from a copy of the sources in another directory, with empty caches, another
// umask, time zone and language. Only the tools tree and downloaded packages
// are shared. It takes two to ten minutes of both processors, and the network for
// the lists of packages.
func TestSecondBuildIsTheSame(t *testing.T) {
	first := underTest(t)
	tools := judge.Dir(t, "LOAM_TOOLS_TREE")

	if os.Geteuid() != 0 {
		judge.Lacking(t, "only root can build")
	}

	if os.Getenv("LOAM_PLACES") == "" {
		t.Skip("a whole build with empty caches: make test-places runs it, for each of its builds")
	}

	second := again(t, first, tools)
	if !slices.Equal(first.manifest.Packages, second.manifest.Packages) {
		t.Log("the archive has other packages now: one more build, from the same packages")
		first, second = second, again(t, first, tools)
	}

	if diff := cmp.Diff(first.manifest, second.manifest); diff != "" {
		t.Errorf("manifests differ (-first +second):\n%s", diff)
	}

	for _, f := range first.manifest.Files {
		out, err := exec.Command("cmp", filepath.Join(first.dir, f.Name),
			filepath.Join(second.dir, f.Name)).CombinedOutput()
		if err != nil {
			t.Errorf("cmp: %v\n%s", err, out)
		}
	}
}

func again(t *testing.T, first build, tools string) build {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join(dir, "source")
	cache := filepath.Join(dir, "cache/loam")
	out := filepath.Join(dir, "elsewhere")
	copySources(t, source)

	if err := os.MkdirAll(cache, 0o755); err != nil {
		t.Fatal(err)
	}

	for _, shared := range []string{
		tools, filepath.Join(filepath.Dir(tools), "debs-"+first.manifest.Arch),
	} {
		if err := os.Symlink(shared, filepath.Join(cache, filepath.Base(shared))); err != nil {
			t.Fatal(err)
		}
	}

	loamctl := filepath.Join(dir, "loamctl")
	run(t, source, nil, "go", "build", "-o", loamctl, "./cmd/loamctl")
	args := []string{"-c", `umask 077; exec "$@"`, "sh",
		loamctl, "build", "--arch=" + first.manifest.Arch,
		"--profile=" + first.manifest.Profile, "--out=" + out,
		"--update-packages=missing"} // As make image does: Debian publishes others at any time.

	if mirror := os.Getenv("MIRROR"); mirror != "" { // make MIRROR=…
		args = append(args, "--mirror="+mirror)
	}

	run(t, source,
		[]string{
			"XDG_CACHE_HOME=" + filepath.Dir(cache), "GOCACHE=", "TZ=Asia/Kathmandu",
			"LC_ALL=tr_TR.UTF-8",
		}, "sh", args...)

	return open(t, out)
}

// copySources copies what a clone has.
func copySources(t *testing.T, to string) {
	t.Helper()
	const top = "../.."
	err := filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}

		name, err := filepath.Rel(top, path)
		switch {
		case err != nil:
			return err
		case name == "build" || name == ".git":
			return fs.SkipDir
		case e.IsDir():
			return os.MkdirAll(filepath.Join(to, name), 0o755)
		}

		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}

		info, err := e.Info()
		if err != nil {
			return err
		}

		return os.WriteFile(filepath.Join(to, name), text, info.Mode().Perm())
	})
	if err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, dir string, env []string, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)

	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}
