package build

import (
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/loam-os/loam/image"
	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/image/output"
	"github.com/loam-os/loam/image/rootfs"
)

// TestABuildIsMadeAgainOnlyWhenItHasTo walks through what may happen between
// two builds.
func TestABuildIsMadeAgainOnlyWhenItHasTo(t *testing.T) {
	for _, test := range []struct {
		name  string
		edit  func(t *testing.T, out string, inputs *string)
		again bool
	}{
		{"nothing happened", func(*testing.T, string, *string) {}, false},
		{"the inputs are others", func(_ *testing.T, _ string, inputs *string) {
			*inputs = "others"
		}, true},
		{"a file was cut off", func(t *testing.T, out string, _ *string) {
			truncate(t, filepath.Join(out, "a.raw"))
		}, true},
		{"a file was written to", func(t *testing.T, out string, _ *string) {
			later := time.Now().Add(time.Minute)
			if err := os.Chtimes(filepath.Join(out, "a.raw"), later, later); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"a file is gone", func(t *testing.T, out string, _ *string) {
			remove(t, filepath.Join(out, "a.raw"))
		}, true},
		{"another build has taken its place", func(t *testing.T, out string, _ *string) {
			writeBuild(t, out, "0.2.0")
		}, true},
		{"the build is gone", func(t *testing.T, out string, _ *string) {
			remove(t, out)
		}, true},
		{"the stamp is gone", func(t *testing.T, out string, _ *string) {
			remove(t, stampFile(out))
		}, true},
		{"the stamp was cut off", func(t *testing.T, out string, _ *string) {
			truncate(t, stampFile(out))
		}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out")
			writeBuild(t, out, "0.1.0")
			inputs := "inputs"
			if err := writeStamp(out, inputs); err != nil {
				t.Fatal(err)
			}

			test.edit(t, out, &inputs)
			if m, ok := unchanged(out, inputs); ok == test.again || (ok && m.Version != "0.1.0") {
				t.Errorf("unchanged: %v, %+v", ok, m)
			}
		})
	}
}

func TestInputsOfABuild(t *testing.T) {
	dir := t.TempDir()
	p := programs{
		loam: filepath.Join(dir, "loam"),
		init: filepath.Join(dir, "init"),
		live: filepath.Join(dir, "init-live"),
	}
	for _, file := range p.all() {
		write(t, file, file)
	}
	inputs := func(b Build, tree rootfs.Root) string {
		t.Helper()
		got, err := b.inputs(tree, p)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}

	tree := rootfs.Root{Dir: "/cache/root-1"}
	plan := image.Plan{Spec: image.Spec{Arch: "amd64"}}
	before := inputs(Build{Plan: plan}, tree)
	if again := inputs(Build{Plan: plan}, tree); again != before {
		t.Error("equal inputs differ")
	}

	plan.Spec.MachineTrust = "key"
	if inputs(Build{Plan: plan}, tree) == before {
		t.Error("another plan makes no difference")
	}
	plan.Spec.MachineTrust = ""
	if inputs(Build{Plan: plan}, rootfs.Root{Dir: "/cache/root-2"}) == before {
		t.Error("another tree makes no difference")
	}
	write(t, p.init, "changed")
	if inputs(Build{Plan: plan}, tree) == before {
		t.Error("another program makes no difference")
	}
}

// writeBuild writes a build with one file.
func writeBuild(t *testing.T, dir, version string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "a.raw"), "disk")
	files, err := output.Describe(dir, []string{"a.raw"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	m := manifest.Manifest{Format: manifest.Format, Version: version, Files: files}
	if err := output.WriteManifest(dir, m); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func truncate(t *testing.T, file string) {
	t.Helper()
	if err := os.Truncate(file, 2); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}
