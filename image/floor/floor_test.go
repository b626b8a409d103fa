package floor

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/manifest"
)

// good returns software that an image may have.
func good() []manifest.Package {
	return []manifest.Package{
		{Name: "github.com/opencontainers/runc", Version: "v1.5.0"},
		{Name: "github.com/containerd/containerd/v2", Version: "v2.10.0"},
		{Name: "github.com/containernetworking/plugins", Version: "v1.9.1"},
		{Name: "stdlib", Version: "1.26.8"},
	}
}

func TestBelow(t *testing.T) {
	const runc, stdlib = 0, 3
	for _, test := range []struct {
		name    string
		of      int
		version string
		want    []string
	}{
		{name: "the floor itself", of: runc, version: "v1.5.0"},
		{name: "a later one", of: runc, version: "v1.10.0"},
		{
			name:    "one with the holes",
			of:      runc,
			version: "v1.4.9",
			want:    []string{"github.com/opencontainers/runc v1.4.9 is older than v1.5.0"},
		},
		{
			name:    "a candidate of the floor",
			of:      runc,
			version: "v1.5.0-rc.3",
			want:    []string{"github.com/opencontainers/runc v1.5.0-rc.3 is older than v1.5.0"},
		},
		{
			name: "no version",
			of:   runc,
			want: []string{"github.com/opencontainers/runc  is older than v1.5.0"},
		},
		{name: "the Go of the floor", of: stdlib, version: "1.26.6"},
		{name: "a later Go", of: stdlib, version: "1.30.0"},
		{name: "a Go with experiments", of: stdlib, version: "1.26.8 X:nocoverageredesign"},
		{
			name:    "an older Go",
			of:      stdlib,
			version: "1.26.5",
			want:    []string{"stdlib 1.26.5 is older than 1.26.6"},
		},
		{
			name:    "a candidate of a Go that is older",
			of:      stdlib,
			version: "1.26rc2",
			want:    []string{"stdlib 1.26rc2 is older than 1.26.6"},
		},
		{
			name:    "a Go from its repository",
			of:      stdlib,
			version: "devel go1.28-0123456789",
			want:    []string{"stdlib devel go1.28-0123456789 is older than 1.26.6"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			software := good()
			software[test.of].Version = test.version
			if diff := cmp.Diff(test.want, withoutPlaces(Below(software))); diff != "" {
				t.Error(diff)
			}
		})
	}

	t.Run("one of several programs has an older Go", func(t *testing.T) {
		software := append(good(), manifest.Package{Name: "stdlib", Version: "1.24.4"})
		want := []string{"stdlib 1.24.4 is older than 1.26.6"}
		if diff := cmp.Diff(want, withoutPlaces(Below(software))); diff != "" {
			t.Error(diff)
		}
	})

	t.Run("an image without runc", func(t *testing.T) {
		want := []string{"github.com/opencontainers/runc is not in the image, want v1.5.0 or later"}
		if diff := cmp.Diff(want, withoutPlaces(Below(good()[1:]))); diff != "" {
			t.Error(diff)
		}
	})
}

// withoutPlaces removes the places in floors.list.
func withoutPlaces(problems []string) []string {
	for i, p := range problems {
		problems[i], _, _ = strings.Cut(p, " (floors.list:")
	}
	return problems
}

func TestCheck(t *testing.T) {
	if err := Check(good()); err != nil {
		t.Errorf("good software: %v", err)
	}

	for _, test := range []struct {
		name string
		of   int
		hint string
	}{
		{"a module", 0, "hint: raise the version in image/upstream"},
		{"Go", 3, "hint: build with a newer Go"},
	} {
		t.Run(test.name, func(t *testing.T) {
			software := good()
			software[test.of].Version = "v0.1.0"
			err := Check(software)
			text := hint.Text(err)
			if fault.Of(err) != fault.BelowFloor || !strings.Contains(text, test.hint) ||
				!strings.Contains(text, "(floors.list:") {
				t.Errorf("%s", text)
			}
		})
	}
}
