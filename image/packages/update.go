// Package packages looks up in Debian's archives which packages images and the
// tools tree consist of, with their dependencies, and so makes the lock
// (image/lock) of all architectures and profiles.
package packages

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/loam-os/loam/firmware/device"
	"github.com/loam-os/loam/image/lock"
	"github.com/loam-os/loam/image/rootfs"
	"github.com/loam-os/loam/image/tools"
)

// metal is the profile with firmware for devices.
const metal = "metal"

// Params say what to find packages for.
type Params struct {
	// Source is the directory of Loam's sources.
	Source string

	// Mirrors are as in [tools.Env].
	Mirrors []string

	// Archs and Profiles are those of the images.
	Archs, Profiles []string

	// Log gets the output of apt.
	Log io.Writer
}

// Update returns the locks of today's packages.
func Update(ctx context.Context, p Params) (lock.File, error) {
	sources, err := tools.Env{Mirrors: p.Mirrors}.FindSources(ctx)
	if err != nil {
		return lock.File{}, err
	}

	archive, err := tools.OpenArchive(ctx, p.Log, sources, p.Archs, "main", "non-free-firmware")
	if err != nil {
		return lock.File{}, err
	}
	defer archive.Close()

	build, err := p.tools(ctx, archive)
	if err != nil {
		return lock.File{}, fmt.Errorf("packages of the tools tree: %w", err)
	}

	var images []lock.Package
	for _, arch := range p.Archs {
		for _, profile := range p.Profiles {
			more, err := p.image(ctx, archive, arch, profile)
			if err != nil {
				return lock.File{}, fmt.Errorf("packages for %s, %s: %w", arch, profile, err)
			}
			images = append(images, more...)
		}
	}

	return lock.File{
		Date:   archive.Date(),
		Tools:  lock.New(build),
		Images: lock.New(images),
	}, nil
}

// tools finds the packages of the tools tree on this host: both with and
// without those for images of another architecture, as one may change what apt
// takes for the other.
func (p Params) tools(ctx context.Context, archive *tools.Archive) ([]lock.Package, error) {
	config := filepath.Join(p.Source, "mkosi")
	names, err := tools.ReadList(filepath.Join(config, "tools.list"))
	if err != nil {
		return nil, err
	}

	all, err := archive.Resolve(ctx, []string{runtime.GOARCH}, "", append(names, "apt"))
	if err != nil {
		return nil, err
	}

	names, err = tools.ReadList(filepath.Join(config, "tools.list"),
		filepath.Join(config, "tools-arm64.list"))
	if err != nil {
		return nil, err
	}

	archs := tools.Architectures(runtime.GOARCH, names)
	more, err := archive.Resolve(ctx, archs, "", append(names, "apt"))
	if err != nil {
		return nil, err
	}

	return append(all, more...), nil
}

// image finds the packages of a root tree.
func (p Params) image(
	ctx context.Context, archive *tools.Archive, arch, profile string,
) ([]lock.Package, error) {
	var firmware device.List
	if profile == metal {
		list, err := device.Metal(arch)
		if err != nil {
			return nil, err
		}
		firmware = list
	}

	config := filepath.Join(p.Source, "mkosi")
	names, err := rootfs.PackageNames(config, arch, profile, firmware)
	if err != nil {
		return nil, err
	}

	status, err := os.ReadFile(filepath.Join(config, "mkosi.skeleton/var/lib/dpkg/status"))
	if err != nil {
		return nil, err
	}

	return archive.Resolve(ctx, []string{arch}, string(status), names)
}
