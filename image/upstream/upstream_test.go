package upstream

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/image/tools"
	"github.com/loam-os/loam/test/judge"
)

func TestBelowFloor(t *testing.T) {
	good := []manifest.Package{
		{Name: "github.com/opencontainers/runc", Version: "v1.5.0"},
		{Name: "github.com/containerd/containerd/v2", Version: "v2.10.0"},
		{Name: "github.com/containernetworking/plugins", Version: "v1.9.1"},
	}
	for _, test := range []struct {
		name    string
		version string
		want    []string
	}{
		{name: "the floor itself", version: "v1.5.0"},
		{name: "a later one", version: "v1.10.0"},
		{
			name:    "one with the holes",
			version: "v1.4.9",
			want:    []string{"github.com/opencontainers/runc v1.4.9 is older than v1.5.0"},
		},
		{
			name:    "a candidate of the floor",
			version: "v1.5.0-rc.3",
			want:    []string{"github.com/opencontainers/runc v1.5.0-rc.3 is older than v1.5.0"},
		},
		{
			name:    "no version",
			version: "",
			want:    []string{"github.com/opencontainers/runc  is older than v1.5.0"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			software := append([]manifest.Package{}, good...)
			software[0].Version = test.version
			if diff := cmp.Diff(test.want, BelowFloor(software)); diff != "" {
				t.Error(diff)
			}
		})
	}

	want := []string{"github.com/opencontainers/runc is not in the image, want v1.5.0 or later"}
	if diff := cmp.Diff(want, BelowFloor(good[1:])); diff != "" {
		t.Errorf("an image without runc: %s", diff)
	}
}

// TestPinsAreAboveTheFloors reads the go.mod files, so that a pin below its
// floor fails before an image is built.
func TestPinsAreAboveTheFloors(t *testing.T) {
	var pinned []manifest.Package
	for _, project := range projects {
		text, err := os.ReadFile(filepath.Join(project.name, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}

		requires := regexp.MustCompile(`(?m)^(?:require)?\s*` +
			regexp.QuoteMeta(project.module) + ` (v\S+)`)
		found := requires.FindSubmatch(text)
		if found == nil {
			t.Fatalf("%s: does not require %s", project.name, project.module)
		}
		pinned = append(pinned, manifest.Package{Name: project.module, Version: string(found[1])})
	}

	for _, problem := range BelowFloor(pinned) {
		t.Error(problem)
	}
}

// TestProgramsAreTheSameBytes builds runc, which has C in it, at two places. A
// cache of their own would take minutes; Go caches no link with C, which is the
// step that could tell the places apart.
func TestProgramsAreTheSameBytes(t *testing.T) {
	tree := tools.Tree{Dir: judge.Dir(t, "LOAM_TOOLS_TREE")}
	g, err := findGo(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	source, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}

	var built []string
	for range 2 {
		out := t.TempDir()
		p := Params{Source: source, Arch: runtime.GOARCH, Log: io.Discard}
		if err := p.build(t.Context(), tree, g, projects[1], out); err != nil {
			t.Fatal(err)
		}

		text, err := os.ReadFile(filepath.Join(out, "usr/bin/runc"))
		if err != nil {
			t.Fatal(err)
		}
		built = append(built, string(text))

		for _, path := range []string{source, g.modules, g.root, out} {
			if strings.Contains(string(text), path) {
				t.Errorf("the program has the path %s in it", path)
			}
		}
	}

	if built[0] != built[1] {
		t.Error("two builds are not the same bytes")
	}
}

// TestRuncInTheTree asks the image's own runc what it is: its version and
// seccomp, without which pods have no system call filter.
func TestRuncInTheTree(t *testing.T) {
	root := judge.Dir(t, "LOAM_ROOT_TREE")
	out, err := exec.Command("chroot", root, "/usr/bin/runc", "--version").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), "libseccomp: ") {
		t.Errorf("runc --version: no libseccomp in\n%s", out)
	}
}
