package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/firmware/device"
	"github.com/loam-os/loam/firmware/loader"
	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/image/rootfs"
	"github.com/loam-os/loam/image/sbom"
	"github.com/loam-os/loam/image/step"
	"github.com/loam-os/loam/image/tools"
	"github.com/loam-os/loam/partitions/verity"
)

// epoch is the time of every file in an image, seconds since 1970: 2025-01-01.
const epoch = 1735689600

// Build is a build under way.
type Build struct {
	// Plan is what [Decide] has planned; a build does not change it.
	Plan Plan
	// Tools is the tools tree; Cache keeps root trees.
	Tools tools.Tree
	Cache string
	// Source is the project's directory; Out is replaced by the finished build.
	Source, Out string
	Steps       *step.Log
	// Keys sign the build.
	Keys Keys
	// BuildFlags are added to `go build`.
	BuildFlags []string
}

// Run builds: afterwards Out is either unchanged or a complete, verified build.
func (b *Build) Run(ctx context.Context) (manifest.Manifest, error) {
	if err := b.resolve(); err != nil {
		return manifest.Manifest{}, err
	}

	unlock, err := lock(b.Out)
	if err != nil {
		return manifest.Manifest{}, err
	}
	defer unlock()

	dir := b.Out + ".new"
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return manifest.Manifest{}, err
	}
	defer os.RemoveAll(dir)

	m, err := b.build(ctx, dir)
	if err != nil {
		return m, err
	}

	if b.Keys.None() {
		return m, replace(dir, b.Out)
	}

	signed := b.Out + ".signed"
	defer os.RemoveAll(signed)

	err = b.Steps.Do("sign", "", func(io.Writer) error {
		m, err = signInto(signed, dir, b.Keys)
		return err
	})
	if err != nil {
		return m, err
	}

	return m, replace(signed, b.Out)
}

// build makes all files of an unsigned build in dir, and checks them. Each step
// is a value made of values before it.
func (b *Build) build(ctx context.Context, dir string) (manifest.Manifest, error) {
	tree, err := b.tree(ctx)
	if err != nil {
		return manifest.Manifest{}, err
	}

	programs, err := b.compilePrograms(ctx, dir)
	if err != nil {
		return manifest.Manifest{}, err
	}

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

	boot, err := b.writeBoot(ctx, dir, plan, tree, programs)
	if err != nil {
		return manifest.Manifest{}, err
	}

	disk, err := b.writeDisks(dir, plan, diskParts{
		rootFS: rootFS,
		verity: hashTree.file,
		uki:    boot.uki,
		loader: boot.loader,
	})
	if err != nil {
		return manifest.Manifest{}, err
	}

	plan = plan.WithDisk(disk.SHA256)
	if err := b.writeLive(dir, plan, tree, programs, boot, disk); err != nil {
		return manifest.Manifest{}, err
	}

	if err := programs.remove(); err != nil {
		return manifest.Manifest{}, err
	}

	err = b.Steps.Do("update bundle", "is there room on the disk?", func(io.Writer) error {
		return WriteUpdate(dir, plan.Base(), plan.about())
	})
	if err != nil {
		return manifest.Manifest{}, err
	}

	return b.describe(dir, plan, boot.kernel, tree)
}

// lock keeps other builds away from the directory out, and out from being
// anything but a build.
func lock(out string) (unlock func(), err error) {
	if entries, err := os.ReadDir(out); err == nil && len(entries) > 0 {
		if _, err := os.Stat(filepath.Join(out, ManifestName)); err != nil {
			return nil, fmt.Errorf("%s: not empty, and not a build\n"+
				"hint: name another directory with --out; a build replaces it whole", out)
		}
	}

	f, err := os.OpenFile(out+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}

	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: another build is running: %w", out, err)
	}

	return func() { f.Close() }, nil
}

// replace puts the directory fresh, once it is durable, in the place of old, if
// there is one, in one step.
func replace(fresh, old string) error {
	if err := syncAll(fresh); err != nil {
		return err
	}
	if _, err := os.Stat(old); errors.Is(err, fs.ErrNotExist) {
		return os.Rename(fresh, old)
	}

	err := unix.Renameat2(unix.AT_FDCWD, fresh, unix.AT_FDCWD, old, unix.RENAME_EXCHANGE)
	if err != nil {
		return fmt.Errorf("put the build in place of %s: %w", old, err)
	}

	return os.RemoveAll(fresh)
}

// syncAll makes what was written to the file system of a directory durable.
func syncAll(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()

	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}

	return nil
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
		SourceDateEpoch: epoch,
	}
	if p.Profile == metal {
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

// programs are the files of the programs of the node while a build goes on.
type programs struct{ loam, init, live string }

func (p programs) all() []string { return []string{p.loam, p.init, p.live} }

func (p programs) remove() error {
	var errs []error
	for _, file := range p.all() {
		errs = append(errs, os.Remove(file))
	}
	return errors.Join(errs...)
}

// compilePrograms builds the programs of the node in dir.
func (b *Build) compilePrograms(ctx context.Context, dir string) (programs, error) {
	p := programs{
		loam: filepath.Join(dir, "loam"),
		init: filepath.Join(dir, "init"),
		live: filepath.Join(dir, "init-live"),
	}

	return p, b.Steps.Do("loam, init (go build)", "", func(w io.Writer) error {
		var errs []error
		for _, file := range p.all() {
			errs = append(errs, b.compile(ctx, file, w))
		}
		return errors.Join(errs...)
	})
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
			UUID:   b.identity("erofs").String(),
			Files: []rootfs.File{
				{Path: "usr/bin/loam", Mode: 0o755, Source: programs.loam},
				{Path: "usr/lib/os-release", Mode: 0o644, Source: release},
				{Path: loader.Installed(params.Arch), Mode: 0o644, Source: b.loader()},
			},
		}, file)
	})
}

// compile builds the program of the node with the name of file. It carries no
// commit: the same sources give the same bytes.
func (b *Build) compile(ctx context.Context, file string, w io.Writer) error {
	name := filepath.Base(file)
	args := append([]string{
		"build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=", "-o", file,
	}, b.BuildFlags...)

	cmd := exec.CommandContext(ctx, "go", append(args, "./cmd/"+name)...)
	cmd.Dir = b.Source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+b.Plan.Spec.Arch,
		"GOAMD64=v1", "GOFLAGS=")
	cmd.Stdout = w
	cmd.Stderr = w

	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go build %s: %w", name, err)
	}

	return nil
}

func (b *Build) output(dir, suffix string) string {
	return filepath.Join(dir, b.Plan.Base()+suffix)
}

// identity derives a UUID from the inputs of the build, so that equal builds
// are equal.
func (b *Build) identity(purpose string) uuid.UUID {
	r := b.Plan.Spec.Release
	return uuid.NewSHA1(uuid.NameSpaceURL,
		[]byte(r.ImageID+"/"+r.Version+"/"+b.Plan.Spec.Arch+"/"+b.Plan.Spec.Profile+"/"+purpose))
}

// lineage is identity, the same for all versions: what depends on it only, an
// update need not fetch.
func (b *Build) lineage(purpose string) uuid.UUID {
	return uuid.NewSHA1(uuid.NameSpaceURL,
		[]byte(b.Plan.Spec.Release.ImageID+"/"+b.Plan.Spec.Arch+"/"+
			b.Plan.Spec.Profile+"/"+purpose))
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
		tree.rootHash, err = b.hash(rootFS, tree.file)
		return err
	})
	return tree, err
}

// hash writes the verity tree of the file data, and returns the root hash.
func (b *Build) hash(data, tree string) (root [32]byte, err error) {
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

	salt := sha256.Sum256([]byte(b.lineage("verity salt").String()))
	root, _, err = verity.Build(in, info.Size(), out,
		verity.Params{Salt: salt, UUID: b.lineage("verity")})

	return root, errors.Join(err, out.Close())
}

// writeBoot makes what starts the system from a disk.
func (b *Build) writeBoot(
	ctx context.Context, dir string, plan Plan, tree rootfs.Root, programs programs,
) (boot bootFiles, err error) {
	err = b.Steps.Do("initramfs, UKI", "", func(w io.Writer) error {
		boot, err = b.readBoot(ctx, dir, plan, tree, programs, w)
		if err != nil {
			return err
		}

		kernel, archive, err := packInitramfs(tree.Dir, programs.init, boot.template, nil)
		if err != nil {
			return err
		}

		boot.kernel = kernel
		boot.uki, err = makeUKI(plan, plan.Cmdline, boot, archive)
		if err != nil {
			return err
		}

		return os.WriteFile(b.output(dir, ".efi"), boot.uki, 0o644)
	})

	return boot, err
}

// readBoot reads and makes the parts of which UKIs are made.
func (b *Build) readBoot(
	ctx context.Context, dir string, plan Plan, tree rootfs.Root, programs programs, w io.Writer,
) (boot bootFiles, err error) {
	boot.template, err = stateTemplate(ctx, b.tool(dir), dir, w)
	if err != nil {
		return boot, err
	}

	boot.stub, err = os.ReadFile(filepath.Join(b.Tools.Dir, loader.Stub(plan.Spec.Arch)))
	if err != nil {
		return boot, err
	}

	boot.loader, err = os.ReadFile(b.loader())
	if err != nil {
		return boot, err
	}

	boot.linux, err = os.ReadFile(tree.Kernel)
	if err != nil {
		return boot, err
	}

	boot.microcode, err = packMicrocode(tree.Dir)
	if err != nil {
		return boot, err
	}

	boot.software, err = b.writeSoftware(dir, plan, tree, programs)
	return boot, err
}

// writeDisks writes the disk image in every form, and describes the packed one.
func (b *Build) writeDisks(dir string, plan Plan, parts diskParts) (manifest.File, error) {
	raw := b.output(dir, ".raw")
	const hint = "is there room on the disk?"
	err := b.Steps.Do("disk image (raw)", hint, func(io.Writer) error {
		return writeRaw(raw, plan, parts)
	})
	if err != nil {
		return manifest.File{}, err
	}

	err = b.Steps.Do("disk image (qcow2)", hint, func(io.Writer) error {
		return convert(b.output(dir, ".qcow2"), raw, writeQcow2)
	})
	if err != nil {
		return manifest.File{}, err
	}

	packed := b.output(dir, ".raw.zst")
	err = b.Steps.Do("disk image (raw.zst)", hint, func(io.Writer) error {
		return convert(packed, raw, writePacked)
	})
	if err != nil {
		return manifest.File{}, err
	}

	return describeFile(dir, filepath.Base(packed))
}

// writeSoftware writes which software is in the image, and returns it.
func (b *Build) writeSoftware(
	dir string, plan Plan, tree rootfs.Root, programs programs,
) ([]byte, error) {
	packages, err := tree.ReadPackages()
	if err != nil {
		return nil, err
	}

	s := plan.Spec
	text, err := sbom.Encode(sbom.About{
		ImageID:   s.Release.ImageID,
		Version:   s.Release.Version,
		Arch:      s.Arch,
		Profile:   s.Profile,
		Namespace: uuid.NewSHA1(b.identity("SBOM"), plan.RootHash[:]).URN(),
		Created:   time.Unix(epoch, 0),
		Packages:  packages,
		Programs:  programs.all(),
	})
	if err != nil {
		return nil, err
	}

	return text, os.WriteFile(b.output(dir, sbomSuffix), text, 0o644)
}

// loader is the file of systemd-boot.
func (b *Build) loader() string {
	return filepath.Join(b.Tools.Dir, loader.Installed(b.Plan.Spec.Arch))
}

// tool runs programs of the tools tree that see dir.
func (b *Build) tool(dir string) runner {
	return func(ctx context.Context, name string, args ...string) *exec.Cmd {
		return b.Tools.Command(ctx, []string{dir}, name, args...)
	}
}

// describe writes manifest and sums, then reads everything again.
func (b *Build) describe(
	dir string, plan Plan, kernel string, tree rootfs.Root,
) (m manifest.Manifest, err error) {
	err = b.Steps.Do("manifest, SHA256SUMS", "", func(io.Writer) error {
		m, err = makeManifest(dir, plan, kernel, tree)
		if err != nil {
			return err
		}
		return writeManifest(dir, m)
	})
	if err != nil {
		return m, err
	}

	return m, b.Steps.Do(
		"reopen and check every claim",
		"the builder has a bug, or the disk has an error",
		func(io.Writer) error {
			_, err := Verify(dir)
			return err
		},
	)
}

func makeManifest(
	dir string, p Plan, kernel string, tree rootfs.Root,
) (manifest.Manifest, error) {
	packages, err := tree.ReadPackages()
	if err != nil {
		return manifest.Manifest{}, err
	}

	files, err := describe(dir, p.Images())
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
		Partitions:  describePartitions(p.Table),
		Files:       files,
		Packages:    packages,
	}, nil
}

func writeManifest(dir string, m manifest.Manifest) error {
	text, err := m.Encode()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, ManifestName), text, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, SumsName), []byte(sums(m, text)), 0o644)
}

// Epoch is the latest time of any file in the image, seconds since 1970.
func (b *Build) Epoch() int64 { return epoch }
