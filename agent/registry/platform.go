package registry

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/containerd/platforms"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/loam-os/loam/hint"
)

// chooseManifest returns the manifest of an index that suits this node best. A
// manifest without a platform comes last: its configuration names the platform.
func chooseManifest(manifests []ocispec.Descriptor) (ocispec.Descriptor, error) {
	node := platforms.Only(platforms.DefaultSpec())
	var best *ocispec.Descriptor
	var others []string
	for i, m := range manifests {
		switch {
		case m.Platform == nil:
			if best == nil {
				best = &manifests[i]
			}
		case !node.Match(*m.Platform):
			others = append(others, platforms.Format(*m.Platform))
		case best == nil || best.Platform == nil || node.Less(*m.Platform, *best.Platform):
			best = &manifests[i]
		}
	}

	if best == nil {
		return ocispec.Descriptor{}, wrongPlatform(others)
	}

	return *best, nil
}

func isOurs(platform ocispec.Platform) error {
	if !platforms.Only(platforms.DefaultSpec()).Match(platform) {
		return wrongPlatform([]string{platforms.Format(platform)})
	}
	return nil
}

func wrongPlatform(others []string) error {
	node := runtime.GOOS + "/" + runtime.GOARCH

	// attestations
	others = slices.DeleteFunc(others, func(name string) bool {
		return strings.HasPrefix(name, "unknown/")
	})
	if len(others) == 0 {
		return errors.New("the image has no platform")
	}

	slices.Sort(others)
	return hint.With(
		fmt.Errorf(
			"the image is for %s, this node is %s",
			strings.Join(slices.Compact(others), ", "), node,
		),
		"name an image for it, or an index that has one",
	)
}
