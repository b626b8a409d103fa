package main

import "context"

// measurePlaces measures the images of other places than amd64 machines in a
// cloud.
func measurePlaces(ctx context.Context, r *report, cold bool) error {
	if cold {
		took, err := coldBuild(ctx, "--arch=arm64")
		if err != nil {
			return err
		}
		err = r.add(result("build/arm64/cold", "s", 720,
			"programs of Debian packages "+
				"under emulation", conditions("arm64 cloud on amd64, no cache of trees, "+
				"packages or Go builds"), took))
		if err != nil {
			return err
		}
	}

	if _, err := runBuild(ctx, nil, "--profile=metal"); err != nil {
		return err
	}

	m, err := built(out)
	if err != nil {
		return err
	}

	if err := r.add(result("size/metal/raw.zst", "MB", 350, "", "metal profile, MB of 10^6 bytes",
		megabytes(m, ".raw.zst"))); err != nil {
		return err
	}

	_, err = runBuild(ctx, nil) // the usual one again, for what follows
	return err
}
