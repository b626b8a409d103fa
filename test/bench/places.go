package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
)

// measurePlaces measures the images of other places than amd64 machines in a cloud.
func measurePlaces(ctx context.Context, r *report, cold bool) error {
	if cold {
		took, err := coldBuild(ctx, "--arch=arm64")
		if err != nil {
			return err
		}
		err = r.add(result("build/arm64/cold", "s", 720, "programs of Debian packages under emulation", conditions("arm64 cloud on amd64, no cache of trees, packages or Go builds"), took))
		if err != nil {
			return err
		}
	}
	if _, err := build(ctx, nil, "--profile=metal"); err != nil {
		return err
	}
	images, err := filepath.Glob(out + "/*.raw.zst")
	if err != nil || len(images) != 1 {
		return errors.Join(err, errors.New("no *.raw.zst in "+out))
	}
	packed, err := os.Stat(images[0])
	if err != nil {
		return err
	}
	if err := r.add(result("size/metal/raw.zst", "MB", 350, "", "metal profile, MB of 10^6 bytes", float64(packed.Size())/1e6)); err != nil {
		return err
	}
	_, err = build(ctx, nil) // the usual one again, for what follows
	return err
}
