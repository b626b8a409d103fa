package layout

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

// extension builds with the libraries of Kubernetes that Gardener builds with.
const extension = "cmd/gardener-extension-os-loam"

// builtTogether are the modules that a run of the tests builds. What the image has of
// others (image/upstream) keeps the versions of its projects.
var builtTogether = []string{
	".",
	extension,
	"test/cluster/e2e",
	"test/cluster/etcd",
	"test/cluster/kubernetes",
	"test/cluster/registry",
	"test/kubectl",
}

// TestModulesThatAreBuiltTogetherHaveTheSameVersions is for machines with empty caches:
// a package of two versions is compiled twice, and all that import it, too.
func TestModulesThatAreBuiltTogetherHaveTheSameVersions(t *testing.T) {
	newest := map[string]string{}
	in := map[string]string{}
	for _, dir := range builtTogether {
		versions := readVersions(t, dir)
		for _, path := range slices.Sorted(maps.Keys(versions)) {
			if dir == extension && strings.HasPrefix(path, "k8s.io/") {
				continue
			}
			version := versions[path]
			if other, ok := newest[path]; ok && version != other {
				t.Errorf("%s is %s in %s/go.mod and %s in %s/go.mod\n"+
					"hint: `go get` the later one in the other directory",
					path, version, dir, other, in[path])
				continue
			}
			newest[path] = version
			in[path] = dir
		}
	}
}

// readVersions returns the version of each module that is built, by its path.
func readVersions(t *testing.T, dir string) map[string]string {
	t.Helper()

	path := filepath.Join("../..", dir, "go.mod")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file, err := modfile.Parse(path, text, nil)
	if err != nil {
		t.Fatal(err)
	}

	versions := map[string]string{}
	for _, require := range file.Require {
		versions[require.Mod.Path] = require.Mod.Version
	}
	for _, replace := range file.Replace {
		_, isRequired := versions[replace.Old.Path]
		if isRequired {
			versions[replace.Old.Path] = replace.New.Version
		}
	}
	// Loam itself, by a path.
	delete(versions, module[:len(module)-1])
	return versions
}
