package upstream

import (
	_ "embed"
	"fmt"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/loam-os/loam/image/manifest"
)

//go:embed floors.list
var floors string

// BelowFloor reports what of the software of an image is older than it may be,
// one line for each, and which of the modules with a floor is not there.
func BelowFloor(software []manifest.Package) []string {
	var problems []string
	for line := range strings.Lines(floors) {
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
			if semver.Compare(p.Version, floor) < 0 {
				problems = append(problems, fmt.Sprintf("%s %s is older than %s",
					name, p.Version, floor))
			}
		}
		if !found {
			problems = append(problems, fmt.Sprintf("%s is not in the image, want %s or later",
				name, floor))
		}
	}
	return problems
}
