package publish

import (
	"context"
	"fmt"

	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/firmware/osrelease"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/bundle"
)

// CheckEpoch refuses a release of a lower security epoch than an older release in the
// repository in dir: nodes that run that one would refuse it. Without a repository,
// there is nothing to compare with.
func CheckEpoch(ctx context.Context, dir string, ix bundle.Index) error {
	_, news, err := read(ctx, dir)
	if fault.Of(err) == fault.NotARepository {
		return nil
	}
	if err != nil {
		return err
	}

	for _, r := range news.Releases {
		isOlder := r.ImageID == ix.ImageID && r.Arch == ix.Arch && r.Profile == ix.Profile &&
			bootentry.CompareVersions(r.Version, ix.Version) < 0
		if isOlder && r.Epoch > ix.Epoch {
			return hint.With(
				fault.With(fmt.Errorf("%s %s has security epoch %d, %s in %s has %d already",
					ix.ImageID, ix.Version, ix.Epoch, r.Version, dir, r.Epoch), fault.OldEpoch),
				"--epoch %d, or %s=%[1]d in os-release", r.Epoch, osrelease.SecurityEpoch)
		}
	}
	return nil
}
