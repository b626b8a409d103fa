package shoot

import (
	"fmt"
	"slices"

	"github.com/loam-os/loam/test/program"
)

// version is a version of Gardener whose documents Loam is tested with.
type version struct {
	name string
	tags string // build tags of test/gardener, for what the version cannot do
}

// versions are all tested versions, newest first. The first is the version in
// test/gardener/go.mod, and [Run] uses its authorizer.
//
// A new version is one line here, and `sh version.sh VERSION` in test/gardener,
// which writes the go.mod of it; `make gardener-diff` shows what it changes.
var versions = []version{
	{name: "v1.150.0"},
	{name: "v1.149.0", tags: "before_gardener_1_150"},
	{name: "v1.148.3", tags: "before_gardener_1_149,before_gardener_1_150"},
}

// Versions are the versions of Gardener that are tested, newest first.
func Versions() []string {
	var names []string
	for _, v := range versions {
		names = append(names, v.name)
	}
	return names
}

// renderer is the module of the program that renders the version's documents.
func (v version) renderer() program.Module {
	m := program.Module{
		Name:     "gardener-" + v.name,
		Dir:      "test/gardener",
		Release:  "github.com/gardener/gardener",
		Tags:     v.tags,
		Programs: []program.Program{{Name: "render", Package: "./render"}},
	}
	if v != versions[0] {
		m.ModFile = "go-" + v.name + ".mod"
	}
	return m
}

func find(name string) (version, error) {
	i := slices.IndexFunc(versions, func(v version) bool { return v.name == name })
	if i < 0 {
		return version{}, fmt.Errorf("version %q of Gardener: want one of %v", name, Versions())
	}
	return versions[i], nil
}
