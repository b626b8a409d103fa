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

	root, err := b.root(ctx, dir)
	if err != nil {
		return manifest.Manifest{}, err
	}

	kernel, err := b.image(ctx, dir, root)
	if err != nil {
		return manifest.Manifest{}, err
	}

	m, err := b.describe(dir, kernel, root)
	if err != nil || b.Keys.None() {
		return m, errors.Join(err, replace(dir, b.Out))
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

// Names of the programs of the node while a build goes on.
const (
	loam    = "loam"
	initBin = "init"
	liveBin = "init-live"
)

// root makes the root tree and the programs, and of tree and loam the root file
// system.
func (b *Build) root(ctx context.Context, dir string) (root rootfs.Root, err error) {
	root, err = b.tree(ctx)
	if err != nil {
		return root, err
	}

	params, err := b.params()
	if err != nil {
		return root, err
	}

	err = b.Steps.Do("loam, init (go build)", "", func(w io.Writer) error {
		return errors.Join(b.compile(ctx, dir, loam, w), b.compile(ctx, dir, initBin, w),
			b.compile(ctx, dir, liveBin, w))
	})
	if err != nil {
		return root, err
	}

	release := filepath.Join(dir, "os-release")
	if err := os.WriteFile(release, b.Plan.Spec.Release.Text, 0o644); err != nil {
		return root, err
	}
	defer os.Remove(release)

	return root, b.Steps.Do("root file system (erofs)", "", func(w io.Writer) error {
		params.Log = w
		return rootfs.Image(ctx, b.Tools, root, rootfs.ImageParams{
			Params: params,
			UUID:   b.identity("erofs").String(),
			Files: []rootfs.File{
				{Path: "usr/bin/loam", Mode: 0o755, Source: filepath.Join(dir, loam)},
				{Path: "usr/lib/os-release", Mode: 0o644, Source: release},
				{Path: loader.Installed(params.Arch), Mode: 0o644, Source: b.loader()},
			},
		}, b.output(dir, ".root"))
	})
}

// compile builds a program of the node. It carries no commit: the same sources
// give the same bytes.
func (b *Build) compile(ctx context.Context, dir, name string, w io.Writer) error {
	args := append([]string{
		"build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=", "-o",
		filepath.Join(dir, name),
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

// image makes all that hangs on the root file system, up to the disk images.
func (b *Build) image(
	ctx context.Context, dir string, root rootfs.Root,
) (kernel string, err error) {
	in := parts{root: b.output(dir, ".root"), verity: b.output(dir, ".verity")}
	err = b.Steps.Do("verity tree", "", func(io.Writer) error { return b.hash(&in) })
	if err != nil {
		return "", err
	}

	err = b.Steps.Do("initramfs, UKI", "", func(w io.Writer) error {
		kernel, err = b.uki(ctx, dir, root, &in, w)
		return err
	})
	if err != nil {
		return "", err
	}

	raw := b.output(dir, ".raw")
	err = b.Steps.Do("disk image (raw)", "is there room on the disk?", func(io.Writer) error {
		return writeRaw(raw, b.Plan, in)
	})
	if err != nil {
		return "", err
	}

	for _, format := range []struct {
		name  string
		write func(dst *os.File, src *os.File, size int64) error
	}{{".qcow2", writeQcow2}, {".raw.zst", writePacked}} {
		err = b.Steps.Do(
			"disk image ("+format.name[1:]+")",
			"is there room on the disk?",
			func(io.Writer) error {
				return convert(b.output(dir, format.name), raw, format.write)
			},
		)
		if err != nil {
			return "", err
		}
	}

	err = b.Steps.Do("PXE set, installer (usb.raw)", "", func(io.Writer) error {
		return b.live(dir, root, &in, kernel)
	})
	if err != nil {
		return "", err
	}

	for _, program := range []string{loam, initBin, liveBin} {
		err = errors.Join(err, os.Remove(filepath.Join(dir, program)))
	}
	if err != nil {
		return "", err
	}

	return kernel, b.Steps.Do("update bundle", "is there room on the disk?", func(io.Writer) error {
		return WriteUpdate(dir, b.Plan.Base(), b.Plan.about())
	})
}

// hash makes the verity tree, and settles the plan with its root hash.
func (b *Build) hash(in *parts) error {
	data, err := os.Open(in.root)
	if err != nil {
		return err
	}
	defer data.Close()

	info, err := data.Stat()
	if err != nil {
		return err
	}

	tree, err := os.Create(in.verity)
	if err != nil {
		return err
	}

	salt := sha256.Sum256([]byte(b.lineage("verity salt").String()))
	hash, _, err := verity.Build(data, info.Size(), tree,
		verity.Params{Salt: salt, UUID: b.lineage("verity")})
	if err := errors.Join(err, tree.Close()); err != nil {
		return err
	}

	b.Plan, err = b.Plan.Settle(hash)
	return err
}

func (b *Build) uki(
	ctx context.Context, dir string, root rootfs.Root, in *parts, w io.Writer,
) (kernel string, err error) {
	in.template, err = stateTemplate(ctx, b.tool(dir), dir, w)
	if err != nil {
		return "", err
	}

	kernel, archive, err := packInitramfs(root.Dir, filepath.Join(dir, initBin), in.template, nil)
	if err != nil {
		return "", err
	}

	in.stub, err = os.ReadFile(filepath.Join(b.Tools.Dir, loader.Stub(b.Plan.Spec.Arch)))
	if err != nil {
		return "", err
	}

	in.loader, err = os.ReadFile(b.loader())
	if err != nil {
		return "", err
	}

	in.linux, err = os.ReadFile(root.Kernel)
	if err != nil {
		return "", err
	}

	in.microcode, err = packMicrocode(root.Dir)
	if err != nil {
		return "", err
	}

	in.software, err = b.software(dir, root)
	if err != nil {
		return "", err
	}

	in.uki, err = makeUKI(b.Plan, b.Plan.Cmdline, in, kernel, archive)
	if err != nil {
		return "", err
	}

	return kernel, os.WriteFile(b.output(dir, ".efi"), in.uki, 0o644)
}

// software writes which software is in the image.
func (b *Build) software(dir string, root rootfs.Root) ([]byte, error) {
	packages, err := root.ReadPackages()
	if err != nil {
		return nil, err
	}

	s := b.Plan.Spec
	text, err := sbom.Encode(sbom.About{
		ImageID:   s.Release.ImageID,
		Version:   s.Release.Version,
		Arch:      s.Arch,
		Profile:   s.Profile,
		Namespace: uuid.NewSHA1(b.identity("SBOM"), b.Plan.RootHash[:]).URN(),
		Created:   time.Unix(epoch, 0),
		Packages:  packages,
		Programs: []string{
			filepath.Join(dir, loam), filepath.Join(dir, initBin), filepath.Join(dir, liveBin),
		},
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
func (b *Build) describe(dir, kernel string, root rootfs.Root) (m manifest.Manifest, err error) {
	err = b.Steps.Do("manifest, SHA256SUMS", "", func(io.Writer) error {
		m, err = b.manifest(dir, kernel, root)
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

func (b *Build) manifest(dir, kernel string, root rootfs.Root) (manifest.Manifest, error) {
	packages, err := root.ReadPackages()
	if err != nil {
		return manifest.Manifest{}, err
	}

	files, err := describe(dir, b.Plan.Images())
	if err != nil {
		return manifest.Manifest{}, err
	}

	p := b.Plan
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
