package output

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loam-os/loam/image"
)

func TestBuildReplacesOnlyABuildAndOneAtATime(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	unlock, err := Lock(out)
	if err != nil {
		t.Fatal(err)
	}

	if _, err := Lock(out); err == nil ||
		!strings.Contains(err.Error(), "another build is running") {
		t.Errorf("a second build beside the first: %v", err)
	}

	unlock()
	if err := os.MkdirAll(out, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(out, "thesis.tex"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(out); err == nil || !strings.Contains(err.Error(), "not a build") {
		t.Errorf("a directory of something else: %v", err)
	}

	fresh := filepath.Join(dir, "fresh")
	if err := os.MkdirAll(fresh, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(fresh, image.ManifestName), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Replace(fresh, out); err != nil {
		t.Fatal(err)
	}

	if _, err := os.Stat(filepath.Join(out, image.ManifestName)); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(fresh); err == nil {
		t.Error("the old build is still there")
	}
}
