package loader

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/loam-os/loam/test/judge"
)

func TestVersionOfDebiansLoader(t *testing.T) {
	tree := judge.Dir(t, "LOAM_TOOLS_TREE")
	f, err := os.Open(filepath.Join(tree, Installed("amd64")))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()

	version, err := Version(f)
	if err != nil || !regexp.MustCompile(`^257\.`).MatchString(version) {
		t.Errorf("%q, %v", version, err)
	}

	stub, err := os.Open(filepath.Join(tree, Stub("amd64")))
	if err != nil {
		t.Fatal(err)
	}
	defer stub.Close()

	if version, err := Version(stub); err == nil {
		t.Errorf("the stub is a loader of version %q", version)
	}

	if version, err := Version(strings.NewReader("MZ")); err == nil {
		t.Errorf("two bytes are a loader of version %q", version)
	}
}
