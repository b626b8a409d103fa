package build

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/google/uuid"

	"github.com/loam-os/loam/firmware/device"
	"github.com/loam-os/loam/firmware/loader"
	"github.com/loam-os/loam/image"
	"github.com/loam-os/loam/image/rootfs"
	"github.com/loam-os/loam/image/upstream"
	"github.com/loam-os/loam/partitions/verity"
)

// Tree returns the root tree of the image, without loam and os-release in it.
func (b *Build) Tree(ctx context.Context) (rootfs.Root, error) {
	if err := b.resolve(); err != nil {
		return rootfs.Root{}, err
	}
	return b.tree(ctx)
}

func (b *Build) params() (p rootfs.Params, err error) {
	p = rootfs.Params{
		Cache:           b.Cache,
		Config:          filepath.Join(b.Source, "mkosi"),
		Arch:            b.Plan.Spec.Arch,
		Profile:         b.Plan.Spec.Profile,
		Lock:            b.Packages.Images,
		SourceDateEpoch: Epoch,
	}
	if p.Profile == image.Metal {
		p.Firmware, err = device.Metal(p.Arch)
	}
	return p, err
}

func (b *Build) tree(ctx context.Context) (root rootfs.Root, err error) {
	params, err := b.params()
	if err != nil {
		return root, err
	}

	err = b.Steps.Do(
		"containerd, runc, CNI plugins (go build)",
		"is a proxy of Go modules in reach? GOPROXY= sets another",
		func(w io.Writer) error {
			params.Overlay, err = upstream.Ensure(ctx, b.Tools, upstream.Params{
				Cache:  b.Cache,
				Source: b.Source,
				Arch:   params.Arch,
				Log:    w,
			})
			return err
		},
	)
	if err != nil {
		return root, err
	}

	err = b.Steps.Do(
		"root tree (mkosi, "+params.Profile+")",
		"is a Debian mirror in reach? MIRROR= sets another",
		func(w io.Writer) error {
			params.Log = w
			root, err = rootfs.Tree(ctx, b.Tools, params)
			return err
		},
	)

	return root, err
}

// writeRootFS makes the root file system of tree and loam, and returns its
// file.
func (b *Build) writeRootFS(
	ctx context.Context, dir string, tree rootfs.Root, programs programs,
) (file string, err error) {
	params, err := b.params()
	if err != nil {
		return "", err
	}

	release := filepath.Join(dir, "os-release")
	if err := os.WriteFile(release, b.Plan.Spec.Release.Text, 0o644); err != nil {
		return "", err
	}
	defer os.Remove(release)

	file = b.output(dir, ".root")
	return file, b.Steps.Do("root file system (erofs)", "", func(w io.Writer) error {
		params.Log = w
		return rootfs.Image(ctx, b.Tools, tree, rootfs.ImageParams{
			Params: params,
			UUID:   identity(b.Plan.Spec, "erofs").String(),
			Files: []rootfs.File{
				{Path: "usr/bin/loam", Mode: 0o755, Source: programs.loam},
				{Path: "usr/lib/os-release", Mode: 0o644, Source: release},
				{
					Path:   loader.Installed(params.Arch),
					Mode:   0o644,
					Source: loaderFile(b.Tools, params.Arch),
				},
			},
		}, file)
	})
}

// identity derives a UUID from the inputs of the build, so that equal builds
// are equal.
func identity(s image.Spec, purpose string) uuid.UUID {
	return uuid.NewSHA1(uuid.NameSpaceURL,
		[]byte(s.Release.ImageID+"/"+s.Release.Version+"/"+s.Arch+"/"+s.Profile+"/"+purpose))
}

// lineage is identity, the same for all versions: what depends on it only, an
// update need not fetch.
func lineage(s image.Spec, purpose string) uuid.UUID {
	return uuid.NewSHA1(uuid.NameSpaceURL,
		[]byte(s.Release.ImageID+"/"+s.Arch+"/"+s.Profile+"/"+purpose))
}

// hashTree is the verity tree of a root file system.
type hashTree struct {
	file     string
	rootHash [32]byte
}

// writeVerity makes the verity tree of the root file system.
func (b *Build) writeVerity(dir, rootFS string) (tree hashTree, err error) {
	tree.file = b.output(dir, ".verity")
	err = b.Steps.Do("verity tree", "", func(io.Writer) error {
		tree.rootHash, err = writeHashTree(b.Plan.Spec, rootFS, tree.file)
		return err
	})
	return tree, err
}

// writeHashTree writes the verity tree of the file data, and returns the root
// hash.
func writeHashTree(s image.Spec, data, tree string) (root [32]byte, err error) {
	in, err := os.Open(data)
	if err != nil {
		return root, err
	}
	defer in.Close()

	info, err := in.Stat()
	if err != nil {
		return root, err
	}

	out, err := os.Create(tree)
	if err != nil {
		return root, err
	}

	salt := sha256.Sum256([]byte(lineage(s, "verity salt").String()))
	root, _, err = verity.Build(in, info.Size(), out,
		verity.Params{Salt: salt, UUID: lineage(s, "verity")})

	return root, errors.Join(err, out.Close())
}
