// Package floor has the oldest versions of software that an image may have: an older one
// has a known hole. [Check] is the function to use; the builder calls it before it makes
// an image, and the publisher before it signs one.
package floor

import (
	_ "embed"
	"errors"
	"fmt"
	"go/version"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/manifest"
)

//go:embed floors.list
var floors string

// stdlib is Go's standard library, which comes with the Go that builds a program. Its
// versions are those of Go.
const stdlib = "stdlib"

// Check refuses software of an image that is older than it may be, or that lacks a
// module with a floor.
func Check(software []manifest.Package) error {
	problems := Below(software)
	if len(problems) == 0 {
		return nil
	}
	err := fault.With(errors.New(strings.Join(problems, "\n")), fault.BelowFloor)
	if strings.HasPrefix(problems[0], stdlib+" ") {
		return hint.With(err, "build with a newer Go; `go version` says which one it is now")
	}
	return hint.With(err, "raise the version in image/upstream/*/go.mod, and build again")
}

// Below reports what of the software of an image is older than it may be, one line for
// each with its place in floors.list, and which of the modules with a floor is not there.
func Below(software []manifest.Package) []string {
	var problems []string
	number := 0
	for line := range strings.Lines(floors) {
		number++
		name, floor, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || name == "#" {
			continue
		}

		found := false
		for _, p := range software {
			if p.Name != name {
				continue
			}
			found = true
			if isOlder(p, floor) {
				problems = append(problems, fmt.Sprintf("%s %s is older than %s (floors.list:%d)",
					name, p.Version, floor, number))
			}
		}
		if !found {
			problems = append(problems, fmt.Sprintf(
				"%s is not in the image, want %s or later (floors.list:%d)", name, floor, number))
		}
	}
	return problems
}

// isOlder reports whether p is older than the version floor. So is a version that cannot
// be compared, such as that of a Go from its repository.
func isOlder(p manifest.Package, floor string) bool {
	if p.Name != stdlib {
		return semver.Compare(p.Version, floor) < 0
	}
	release, _, _ := strings.Cut(p.Version, " ") // " X:NAME" are experiments.
	return version.Compare("go"+release, "go"+floor) < 0
}
