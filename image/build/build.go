package build

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/loam-os/loam/image"
	"github.com/loam-os/loam/image/lock"
	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/image/output"
	"github.com/loam-os/loam/image/rootfs"
	"github.com/loam-os/loam/image/sign"
	"github.com/loam-os/loam/image/step"
	"github.com/loam-os/loam/image/tools"
	"github.com/loam-os/loam/image/update"
)

// Epoch is the latest time of any file in an image, seconds since 1970:
// 2025-01-01.
const Epoch = 1735689600

// Build is a build under way.
type Build struct {
	// Plan is what [image.Decide] has planned; a build does not change it.
	Plan image.Plan
	// Tools is the tools tree; Cache keeps root trees.
	Tools tools.Tree
	Cache string
	// Packages has the versions of the distribution's packages.
	Packages lock.File
	// Source is the project's directory; Out is replaced by the finished build.
	Source, Out string
	Steps       *step.Log
	// Keys sign the build.
	Keys sign.Keys
	// BuildFlags are added to `go build`.
	BuildFlags []string
}

// Run builds: afterwards Out is either unchanged or a complete, verified build.
// An unsigned build is not made again while nothing has changed that it is made
// from.
func (b *Build) Run(ctx context.Context) (manifest.Manifest, error) {
	if err := b.resolve(); err != nil {
		return manifest.Manifest{}, err
	}

	unlock, err := output.Lock(b.Out)
	if err != nil {
		return manifest.Manifest{}, err
	}
	defer unlock()

	dir := b.Out + ".new"
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return manifest.Manifest{}, err
	}
	defer os.RemoveAll(dir)

	tree, err := b.tree(ctx)
	if err != nil {
		return manifest.Manifest{}, err
	}
	programs, err := b.compiler().programs(ctx, dir)
	if err != nil {
		return manifest.Manifest{}, err
	}
	if err := checkFloors(tree, programs); err != nil {
		return manifest.Manifest{}, err
	}
	inputs, err := b.inputs(tree, programs)
	if err != nil {
		return manifest.Manifest{}, err
	}
	if m, ok := unchanged(b.Out, inputs); ok && b.Keys.None() {
		return m, nil
	}

	m, err := b.build(ctx, dir, tree, programs)
	if err != nil {
		return m, err
	}

	if b.Keys.None() {
		if err := output.Replace(dir, b.Out); err != nil {
			return m, err
		}
		return m, writeStamp(b.Out, inputs)
	}

	signed := b.Out + ".signed"
	defer os.RemoveAll(signed)

	err = b.Steps.Do("sign", "", func(w io.Writer) error {
		m, err = sign.Into(ctx, signed, dir, b.Keys, signLog{w, b.Steps})
		return err
	})
	if err != nil {
		return m, err
	}

	return m, output.Replace(signed, b.Out)
}

// build makes all files of an unsigned build in dir, and checks them. Each step
// is a value made of values before it.
func (b *Build) build(
	ctx context.Context, dir string, tree rootfs.Root, programs programs,
) (manifest.Manifest, error) {
	rootFS, err := b.writeRootFS(ctx, dir, tree, programs)
	if err != nil {
		return manifest.Manifest{}, err
	}

	hashTree, err := b.writeVerity(dir, rootFS)
	if err != nil {
		return manifest.Manifest{}, err
	}

	plan, err := b.Plan.WithRootHash(hashTree.rootHash)
	if err != nil {
		return manifest.Manifest{}, err
	}

	images := images{
		dir:      dir,
		plan:     plan,
		tree:     tree,
		programs: programs,
		tools:    b.Tools,
		steps:    b.Steps,
	}

	boot, err := images.writeBoot(ctx)
	if err != nil {
		return manifest.Manifest{}, err
	}

	disk, err := images.writeDisks(ctx, diskParts{
		rootFS: rootFS,
		verity: hashTree.file,
		uki:    boot.uki,
		loader: boot.loader,
	})
	if err != nil {
		return manifest.Manifest{}, err
	}

	images.plan = plan.WithDisk(disk.SHA256)
	if err := images.writeLive(boot, disk); err != nil {
		return manifest.Manifest{}, err
	}

	if err := programs.remove(); err != nil {
		return manifest.Manifest{}, err
	}

	err = b.Steps.Do("update bundle", "is there room on the disk?", func(io.Writer) error {
		return update.Write(dir, plan.Base(), plan.About())
	})
	if err != nil {
		return manifest.Manifest{}, err
	}

	return images.describe(ctx, boot.kernel, b.Packages.Date)
}

// resolve makes the paths absolute.
func (b *Build) resolve() (err error) {
	for _, path := range []*string{&b.Source, &b.Out, &b.Cache} {
		*path, err = filepath.Abs(*path)
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *Build) output(dir, suffix string) string {
	return filepath.Join(dir, b.Plan.Base()+suffix)
}

// signLog implements [sign.Listener] for the log of a step.
type signLog struct {
	io.Writer
	*step.Log
}

// Doing implements [sign.Listener].
func (l signLog) Doing(what string) { fmt.Fprintln(l.Writer, what) }
