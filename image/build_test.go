package image

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestBuildReplacesOnlyABuildAndOneAtATime(t *testing.T) {
	dir := t.TempDir()
	b := Build{Out: filepath.Join(dir, "out")}
	unlock, err := lock(b.Out)
	if err != nil {
		t.Fatal(err)
	}

	if _, err := lock(b.Out); err == nil ||
		!strings.Contains(err.Error(), "another build is running") {
		t.Errorf("a second build beside the first: %v", err)
	}

	unlock()
	if err := os.MkdirAll(b.Out, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(b.Out, "thesis.tex"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := lock(b.Out); err == nil || !strings.Contains(err.Error(), "not a build") {
		t.Errorf("a directory of something else: %v", err)
	}

	fresh := filepath.Join(dir, "fresh")
	if err := os.MkdirAll(fresh, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(fresh, ManifestName), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := replace(fresh, b.Out); err != nil {
		t.Fatal(err)
	}

	if _, err := os.Stat(filepath.Join(b.Out, ManifestName)); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(fresh); err == nil {
		t.Error("the old build is still there")
	}
}
