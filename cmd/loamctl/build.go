package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/image"
	"github.com/loam-os/loam/image/build"
	"github.com/loam-os/loam/image/lock"
	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/image/sign"
	"github.com/loam-os/loam/image/sign/ownerkey"
	"github.com/loam-os/loam/image/step"
	"github.com/loam-os/loam/image/tools"
)

// buildOptions are the flags of every command that needs an image.
type buildOptions struct {
	arch, profile, out, source string
	sectorSize                 int
	// release is an os-release(5) file, "" for the file in the sources.
	release string
	// machineTrust has keys, see machineKeys.
	machineTrust []string
	mirrors      []string
	packages     packagesOptions
	flagsForGo   []string
	sign         signOptions
	sums         sumsOptions
}

func (o *buildOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.arch, "arch", "amd64",
		"`ARCH` of the machines: "+strings.Join(image.Architectures(), " or "))
	f.StringVar(&o.profile, "profile", "cloud",
		"`PROFILE`: "+strings.Join(image.Profiles(), " or ")+", for virtual machines or for all others")
	f.IntVar(&o.sectorSize, "sector-size", 512,
		"sectors of the disks have that many `BYTES`: 512 or 4096")
	f.StringVar(&o.out, "out", "", "`DIR` for the build (default build/ARCH-PROFILE)")
	f.StringVar(&o.source, "source", ".", "`DIR` with Loam's sources")
	f.StringVar(&o.release, "os-release", "",
		"os-release `FILE` of the image, which has its version (default: in the sources)")
	trustFlag(f, &o.machineTrust)
	f.StringSliceVar(&o.mirrors, "mirror", nil,
		"`URL` of a Debian mirror, also several (default: this machine's)")
	o.packages.flags(f)
	o.sign.flags(f, "sign-")
	o.sign.pcrFlag(f, "sign-")
	o.sums.flags(f)
	f.StringSliceVar(&o.flagsForGo, "go-flag", nil, "one more `FLAG` for go build, also several")
}

// builder has what a build needs: a plan, and the tools that carry it out.
type builder struct {
	options buildOptions
	plan    image.Plan
	cache   string
	tools   tools.Tree
	steps   *step.Log

	// packages are the versions of Debian's packages.
	packages lock.File

	keys sign.Keys
}

func buildCommand() *cobra.Command {
	var o buildOptions
	var planOnly bool
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Build an image for disks, virtual machines, PXE, USB installers and updates",
		Long: `build makes an image from Debian packages and Loam's programs, in every form: disks (raw,
packed, qcow2), the USB installer, the PXE set, the update. It reads them again and
checks every claim of their manifest. With a key it signs them, as loamctl sign does.

The Debian packages have exactly the versions in mkosi/packages.lock, or the build fails and
says which the archive no longer has; --update-packages takes today's.

It needs root, for the root tree. What it needs on this machine and does not find it installs,
and says so. The second build takes seconds: trees are kept in ~/.cache/loam. A build of which
nothing has changed is kept as it is.`,
		Example: `  loamctl build
  loamctl build --profile metal --arch arm64
  loamctl build --plan --sign-key db.key --sign-certificate db.pem`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if planOnly {
				plan, err := o.decide()
				if err == nil {
					err = o.sign.check()
				}
				if err != nil {
					return err
				}
				_, err = fmt.Fprint(cmd.OutOrStdout(), plan)
				return err
			}

			b, err := o.open(cmd.Context())
			if err != nil {
				return err
			}
			defer b.steps.Close()

			fmt.Fprintf(cmd.OutOrStdout(), "%s\n", b.plan)
			_, err = b.build(cmd.Context())

			return err
		},
	}

	o.flags(cmd.Flags())
	cmd.Flags().BoolVar(&planOnly, "plan", false, "print the plan and stop")
	return cmd
}

// check refuses flags that no sources make right.
func (o buildOptions) check() error {
	spec := image.Spec{Arch: o.arch, Profile: o.profile, SectorSize: o.sectorSize}
	return errors.Join(spec.CheckTarget(), o.packages.check(), o.sign.checkPair())
}

func (o buildOptions) decide() (image.Plan, error) {
	if err := o.check(); err != nil {
		return image.Plan{}, err
	}

	text, err := os.ReadFile(cmp.Or(o.release, filepath.Join(o.source, "os-release")))
	if err != nil {
		return image.Plan{}, hint.With(err,
			"run this in Loam's source directory, or name it with --source")
	}

	release, err := image.ParseRelease(text)
	if err != nil {
		return image.Plan{}, err
	}

	keys, err := machineKeys(o.machineTrust)
	if err != nil {
		return image.Plan{}, err
	}

	return image.Decide(image.Spec{
		Arch:         o.arch,
		Profile:      o.profile,
		SectorSize:   o.sectorSize,
		Release:      release,
		MachineTrust: keys.String(),
	})
}

// open plans the build and makes its tools ready.
func (o buildOptions) open(ctx context.Context) (*builder, error) {
	plan, err := o.decide()
	if err != nil {
		return nil, err
	}

	if os.Geteuid() != 0 {
		return nil, tools.ErrNotRoot
	}

	b := &builder{plan: plan}
	b.keys, err = o.sign.keys(ownerkey.Tokens{
		Context: ctx,
		Tools: func() (tools.Tree, error) {
			return b.tools, nil
		},
		PIN: askPIN,
	})
	if err != nil {
		return nil, err
	}

	b.keys.Sums, err = o.sums.key()
	if err != nil {
		return nil, err
	}

	if o.out == "" {
		o.out = filepath.Join(o.source, "build", o.arch+"-"+o.profile)
	}

	if err := os.MkdirAll(filepath.Dir(o.out), 0o755); err != nil {
		return nil, err
	}

	b.cache, err = cacheDir()
	if err != nil {
		return nil, err
	}

	b.steps, err = step.New(os.Stdout, o.out+".log")
	if err != nil {
		return nil, err
	}

	b.options = o
	return b, b.ready(ctx)
}

// cacheDir keeps trees between builds and checkouts.
func cacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", hint.With(fmt.Errorf("cache: %w", err), "set HOME or XDG_CACHE_HOME")
	}
	dir = filepath.Join(dir, "loam")
	return dir, os.MkdirAll(dir, 0o755)
}

func (b *builder) ready(ctx context.Context) error {
	o := b.options
	if missing := tools.Missing(); len(missing) > 0 {
		err := b.steps.Do(
			"install "+strings.Join(missing, ", "),
			"is a Debian mirror in reach?",
			func(w io.Writer) error {
				return tools.Install(ctx, w, missing)
			},
		)
		if err != nil {
			return err
		}
	}

	lists := []string{filepath.Join(o.source, "mkosi/tools.list")}
	if o.arch == "arm64" {
		lists = append(lists, filepath.Join(o.source, "mkosi/tools-arm64.list"))
	}

	packages, err := tools.ReadList(lists...)
	if err != nil {
		return err
	}

	b.packages, err = b.locks(ctx)
	if err != nil {
		return err
	}

	err = b.retryWithToday(ctx, func() error { return b.ensureTools(ctx, packages) })
	if err != nil || o.arch == hostArch() {
		return err
	}

	hint := "in a container, install qemu-user-static on the machine itself; anywhere, " +
		"the kernel needs CONFIG_BINFMT_MISC"
	return b.steps.Do("emulation of "+o.arch+" (binfmt_misc)", hint, func(w io.Writer) error {
		interpreter, err := b.tools.Emulate(o.arch)
		fmt.Fprintln(w, o.arch, "programs are run by", interpreter)
		return err
	})
}

// ensureTools makes the tools tree.
func (b *builder) ensureTools(ctx context.Context, packages []string) error {
	return b.steps.Do(
		"tools tree (mmdebstrap)",
		"is a Debian mirror in reach? --mirror sets another",
		func(w io.Writer) (err error) {
			b.tools, err = tools.Ensure(ctx, tools.Env{
				Cache:    b.cache,
				Packages: packages,
				Mirrors:  b.options.mirrors,
				Lock:     b.packages.Tools,
				Log:      w,
			})
			return err
		},
	)
}

func (b *builder) run() build.Build {
	return build.Build{
		Plan:       b.plan,
		Tools:      b.tools,
		Cache:      b.cache,
		Packages:   b.packages,
		Source:     b.options.source,
		Out:        b.options.out,
		Steps:      b.steps,
		Keys:       b.keys,
		BuildFlags: b.options.flagsForGo,
	}
}

func (b *builder) build(ctx context.Context) (manifest.Manifest, error) {
	start := time.Now()
	var m manifest.Manifest
	err := b.retryWithToday(ctx, func() (err error) {
		run := b.run()
		m, err = run.Run(ctx)
		return err
	})
	if err != nil {
		return m, err
	}

	b.steps.Note("\n%s, root hash %s, in %.1f s", b.options.out, m.RootHash,
		time.Since(start).Seconds())
	return m, nil
}
