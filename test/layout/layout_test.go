// Package layout holds the rules about which package may import which, as a
// test (ARCHITECTURE.md, "Import rules"), and about what the top level holds.
package layout

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/loam-os/loam/"

// bottom packages import nothing of ours but each other.
var bottom = []string{
	"hint", "partitions", "firmware", "image/dsse", "image/manifest", "image/bundle",
	"image/repository",
}

// walls are the only packages that may import a big dependency themselves.
var walls = map[string][]string{
	"github.com/coreos/go-systemd/":  {"agent/unit"},
	"k8s.io/client-go/":              {"agent/cluster", "cmd/loamctl/kubeconfig"},
	"k8s.io/cri-api/":                {"agent/pods"},
	"github.com/containerd/":         {"agent/registry"},
	"oras.land/oras-go":              {"image/repository", "image/publish"},
	"github.com/vishvananda/netlink": {"agent/link"},
	"github.com/diskfs/go-diskfs":    {"image/esp"},
	"github.com/insomniacslk/dhcp":   {"image/pxe", "agent/link"},
	"github.com/spf13/cobra": {
		"cmd/complete", "cmd/loam", "cmd/loamctl", "cmd/outcome", "cmd/usage", "cmd/version", "test/docs",
	},
	"github.com/pelletier/go-toml":       {"agent/cri"},
	"github.com/u-root/u-root/pkg/mount": {"agent/boot"},
	"github.com/theupdateframework/":     {"image/repository", "image/publish"},
	"github.com/sigstore/":               {"image/publish", "agent/cosign"},
	"github.com/ProtonMail/":             {"image/openpgp"},
	"github.com/google/go-tpm":           {"agent/tpm"},
}

// features are the rooms of the agent that only its composition, package agent,
// puts together. Each may be imported by the packages listed beside it, by
// commands and by tests, so that no arrow runs from a feature to another or
// back up.
var features = map[string][]string{
	"agent":                   {},
	"agent/console":           {"agent"},
	"agent/decode":            {"agent", "agent/offline"},
	"agent/hostname/nodename": {"agent"},
	"agent/networkd/watch":    {"agent"},
	"agent/identity":          {"agent"},
	"agent/offline":           {},
	"agent/osimage":           {"agent", "agent/offline"},
	"agent/repair":            {"agent"},
	"agent/reset":             {"agent"},
	"agent/vitals":            {"agent"},
	"agent/volume/manager":    {"agent"},
}

// floors are the packages that carry an image's plan out, from the bottom up,
// with the packages inside each. None imports a package above it. The other
// packages of image import none of them.
var floors = []string{
	"image", "image/output", "image/update", "image/publish", "image/verify", "image/sign",
	"image/build",
}

// notInPlan is not for the package image, which only decides.
var notInPlan = []string{"os", "os/exec", "net", "time", "math/rand", "crypto/rand"}

// leaves of the agent import nothing of ours.
var leaves = []string{"agent/mount", "agent/unitfile"}

// notInBoot must not run as PID 1.
var notInBoot = []string{
	"k8s.io/", "github.com/containerd/", "github.com/coreos/go-systemd/", "github.com/godbus/",
	"github.com/theupdateframework/", "go.uber.org/zap", "os/exec",
}

// TestTheNodeKnowsTimeZones: the image has no /usr/share/zoneinfo, and policies name
// zones.
func TestTheNodeKnowsTimeZones(t *testing.T) {
	if !slices.Contains(list(t, "-deps", "./cmd/loam"), "time/tzdata") {
		t.Error("cmd/loam does not have the time zones in it")
	}
}

// list returns the import paths that `go list` prints for the arguments.
func list(t *testing.T, args ...string) []string {
	t.Helper()
	out, err := run(args...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(out)
}

// run runs `go list` at the top of the tree.
func run(args ...string) (string, error) {
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	cmd.Dir = "../.."
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go list %v: %w", args, err)
	}
	return string(out), nil
}

// packages is what `go list` prints of the direct imports of each of our
// packages; it takes a second, and five tests read it.
var packages = sync.OnceValues(func() (string, error) {
	return run("-f", `{{.ImportPath}}:{{join .Imports ","}};`, "./...")
})

// imports are the direct imports of each of our packages, named without the
// module.
func imports(t *testing.T) map[string][]string {
	t.Helper()
	out, err := packages()
	if err != nil {
		t.Fatal(err)
	}

	byPackage := map[string][]string{}
	for line := range strings.SplitSeq(strings.Join(strings.Fields(out), ""), ";") {
		name, list, ok := strings.Cut(line, ":")
		if ok {
			byPackage[strings.TrimPrefix(name, module)] = strings.Split(list, ",")
		}
	}

	return byPackage
}

func under(name string, dirs ...string) bool {
	return slices.ContainsFunc(dirs,
		func(d string) bool { return name == d || strings.HasPrefix(name, d+"/") })
}

func TestBottomPackagesImportOnlyTheBottom(t *testing.T) {
	for name, list := range imports(t) {
		for _, imp := range list {
			own, isOurs := strings.CutPrefix(imp, module)
			if under(name, bottom...) && isOurs && !under(own, bottom...) {
				t.Errorf("%s imports %s", name, own)
			}
		}
	}
}

func TestAgentAndImageDoNotKnowEachOther(t *testing.T) {
	for name, list := range imports(t) {
		for _, imp := range list {
			own := strings.TrimPrefix(imp, module)
			switch {
			case under(own, "image/repository/roots"):
			case under(own, "image/dsse") && under(name, "agent/cosign", "agent/trust"):
			case under(own, "image/manifest") && under(name, "agent/registry", "agent/upgrade"):
			case under(own, "image/bundle", "image/repository") &&
				under(name, "agent/upgrade", "agent/plane/bundle"):
			case under(name,
				"agent") && under(own, "image"), under(name, "image") && under(own, "agent"):
				t.Errorf("%s imports %s", name, own)
			}
		}
	}
}

func TestOnlyTheCompositionPutsFeaturesTogether(t *testing.T) {
	all := imports(t)
	for feature := range features {
		if _, there := all[feature]; !there {
			t.Errorf("%s is not a package", feature)
		}
	}

	for name, list := range all {
		if under(name, "cmd", "test") {
			continue
		}
		for _, imp := range list {
			feature, isOurs := strings.CutPrefix(imp, module)
			importers, isFeature := features[feature]
			if isOurs && isFeature && !slices.Contains(importers, name) {
				t.Errorf("%s imports %s: only %s, commands and tests may", name, feature,
					strings.Join(importers, ", "))
			}
		}
	}
}

// floorOf returns the floor of a package, -1 if it is on none.
func floorOf(name string) int {
	return slices.IndexFunc(floors, func(floor string) bool {
		return name == floor || (floor != "image" && under(name, floor))
	})
}

func TestABuildIsMadeFromTheBottomUp(t *testing.T) {
	all := imports(t)
	for _, name := range floors {
		if _, there := all[name]; !there {
			t.Errorf("%s is not a package", name)
		}
	}

	for name, list := range all {
		for _, imp := range list {
			own := strings.TrimPrefix(imp, module)
			if under(name, "image") && floorOf(own) > floorOf(name) {
				t.Errorf("%s imports %s, which is above it", name, own)
			}
		}
	}
}

func TestAPlanIsPure(t *testing.T) {
	for _, imp := range imports(t)["image"] {
		if slices.Contains(notInPlan, imp) {
			t.Errorf("image imports %s", imp)
		}
	}
}

func TestLeavesImportNothingOfOurs(t *testing.T) {
	all := imports(t)
	for _, leaf := range leaves {
		list, there := all[leaf]
		if !there {
			t.Errorf("%s is not a package", leaf)
		}
		for _, imp := range list {
			if strings.HasPrefix(imp, module) {
				t.Errorf("%s imports %s", leaf, imp)
			}
		}
	}
}

func TestBigDependenciesHaveOneWallEach(t *testing.T) {
	for name, list := range imports(t) {
		for _, imp := range list {
			for dep, wall := range walls {
				if strings.HasPrefix(imp+"/", dep) && !under(name, wall...) {
					t.Errorf("%s imports %s: only %s may", name, imp, strings.Join(wall, ", "))
				}
			}
		}
	}
}

func TestPID1DependsOnNothingBig(t *testing.T) {
	for _, dep := range list(t, "-deps", "./agent/boot") {
		for _, no := range notInBoot {
			if strings.HasPrefix(dep, no) {
				t.Errorf("agent/boot depends on %s", dep)
			}
		}
	}
}

func TestInitOfADiskHasNoNetwork(t *testing.T) {
	for _, dep := range list(t, "-deps", "./cmd/init") {
		if dep == "net/http" || strings.HasPrefix(dep, "github.com/vishvananda/") {
			t.Errorf("cmd/init depends on %s", dep)
		}
	}
}

func TestNodeBinaryHasNoBuilderCode(t *testing.T) {
	for _, dep := range list(t, "-deps", "./cmd/loam") {
		if own := strings.TrimPrefix(dep, module); strings.HasPrefix(dep, "github.com/diskfs/") ||
			(under(own, "image") && !under(own, bottom...)) {
			t.Errorf("cmd/loam depends on %s", dep)
		}
	}
}

// TestOnlyEnvNamesTheMachine: a test gives the agent another kernel and other devices.
func TestOnlyEnvNamesTheMachine(t *testing.T) {
	files, err := filepath.Glob("../../agent/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		if name == "env.go" || strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, machine := range []string{`"/proc`, `"/sys`, `"/dev`, `DirFS("/")`} {
			if strings.Contains(string(text), machine) {
				t.Errorf("agent/%s has %s: it belongs in Env", name, machine)
			}
		}
	}
}

func TestTopLevelIsWhatTheDesignSays(t *testing.T) {
	want := []string{
		".ci", ".git", ".gitignore", "ARCHITECTURE.md", "CONTRIBUTING.md", "LICENSE", "Makefile",
		"README.md", "agent", "build", "cmd", "docs", "examples", "firmware", "go.mod", "go.sum",
		"hint", "image", "mkosi", "os-release", "partitions", "test",
	}
	have, err := os.ReadDir("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range have {
		if !slices.Contains(want, e.Name()) {
			t.Errorf("%s is not in the design of the top level", e.Name())
		}
	}
}

func TestVersionIsWrittenInOneFile(t *testing.T) {
	text, err := os.ReadFile("../../os-release")
	if err != nil {
		t.Fatal(err)
	}

	var version string
	for _, line := range strings.Split(string(text), "\n") {
		if v, ok := strings.CutPrefix(line, "IMAGE_VERSION="); ok {
			version = v
		}
	}

	for _, pattern := range []string{
		"../../cmd/*/*.go", "../../agent/*/*.go", "../../image/*.go", "../../image/*/*.go",
		"../../Makefile", "../../mkosi/mkosi.conf",
	} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(f, "_test.go") && strings.Contains(string(text), version) {
				t.Errorf("%s names version %s", f, version)
			}
		}
	}
}
