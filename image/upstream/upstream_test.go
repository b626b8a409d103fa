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

	"github.com/loam-os/loam/image/floor"
	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/image/tools"
	"github.com/loam-os/loam/test/judge"
)

// TestPinsAreAboveTheFloors reads the go.mod files, so that a pin below its
// floor fails before an image is built. The version of Go is in there, too: it is the
// oldest that builds the project.
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

		found = regexp.MustCompile(`(?m)^go (\S+)$`).FindSubmatch(text)
		if found == nil {
			t.Fatalf("%s: names no version of Go", project.name)
		}
		pinned = append(pinned, manifest.Package{Name: "stdlib", Version: string(found[1])})
	}

	for _, problem := range floor.Below(pinned) {
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
