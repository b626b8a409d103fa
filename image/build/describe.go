package build

import (
	"context"
	"encoding/hex"
	"io"
	"time"

	"github.com/loam-os/loam/image"
	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/image/output"
	"github.com/loam-os/loam/image/rootfs"
	"github.com/loam-os/loam/image/verify"
)

// describe writes manifest and sums, then reads everything again.
func (im images) describe(
	ctx context.Context, kernel string, packagesDate time.Time,
) (m manifest.Manifest, err error) {
	err = im.steps.Do("manifest, SHA256SUMS", "", func(io.Writer) error {
		m, err = makeManifest(im.dir, im.plan, kernel, im.tree)
		if err != nil {
			return err
		}

		loader, err := loaderPackage(im.tools, im.plan.Spec.Arch)
		if err != nil {
			return err
		}

		m.Packages = append(m.Packages, loader)
		m.PackagesDate = packagesDate
		return output.WriteManifest(im.dir, m)
	})
	if err != nil {
		return m, err
	}

	return m, im.steps.Do(
		"reopen and check every claim",
		"the builder has a bug, or the disk has an error",
		func(io.Writer) error {
			_, err := verify.Build(ctx, im.dir, im.steps.Progress)
			return err
		},
	)
}

func makeManifest(
	dir string, p image.Plan, kernel string, tree rootfs.Root,
) (manifest.Manifest, error) {
	packages, err := tree.ReadPackages()
	if err != nil {
		return manifest.Manifest{}, err
	}

	files, err := output.Describe(dir, p.Images(), io.Discard)
	if err != nil {
		return manifest.Manifest{}, err
	}

	return manifest.Manifest{
		Format:      manifest.Format,
		ImageID:     p.Spec.Release.ImageID,
		Version:     p.Spec.Release.Version,
		Arch:        p.Spec.Arch,
		Profile:     p.Spec.Profile,
		RootHash:    hex.EncodeToString(p.RootHash[:]),
		Kernel:      kernel,
		Cmdline:     p.Cmdline,
		LiveCmdline: p.LiveCmdline,
		UKI:         p.UKI,
		DiskGUID:    p.Table.DiskGUID,
		SectorSize:  p.Table.SectorSize,
		DiskSize:    p.Table.DiskSize,
		Partitions:  output.Partitions(p.Table),
		Files:       files,
		Packages:    packages,
	}, nil
}
