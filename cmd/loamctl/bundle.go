package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/cmd/progress"
	"github.com/loam-os/loam/cmd/usage"
	"github.com/loam-os/loam/image/floor"
	"github.com/loam-os/loam/image/meter"
	"github.com/loam-os/loam/image/publish"
	"github.com/loam-os/loam/image/repository"
	"github.com/loam-os/loam/image/update"
)

// bundleOptions are the flags of bundle.
type bundleOptions struct {
	repositoryOptions
	epoch   int
	refresh bool
	// waves are as they were written, and parsed by check.
	waves  string
	parsed []repository.Wave

	sums sumsOptions
}

func bundleCommand() *cobra.Command {
	var o bundleOptions
	cmd := &cobra.Command{
		Use:               "bundle BUILD_DIR",
		ValidArgsFunction: completeBuilds(0),
		Short:             "Publish a build as an update, signed, in a directory",
		Long: `bundle adds the build to a repository: a directory that any web server, or a USB drive, can
give to nodes. In it are the chunks of the system, each once, an index of them, and metadata
signed as The Update Framework says; beside them what systemd-sysupdate reads. Nodes trust a
repository by its first metadata/1.root.json.

With --waves, a release reaches some machines before the others ('loamctl waves').

A build with software that is older than its floor (image/floor/floors.list), or of a lower
security epoch than an older release in the repository, is refused.

The keys are files of another directory: root-1.pem and so on, which belong offline once the
repository is there, and targets.pem, snapshot.pem, timestamp.pem. Nodes take an update from a
repository only if it was signed within the last week (--valid): --refresh signs it again. A
repository with a damaged file is not signed; the same build again repairs its release.

` + signerHelp,
		Example: `  loamctl bundle build/amd64-cloud --repository updates --keys keys --init
  loamctl bundle build/amd64-cloud --repository updates --keys keys
  loamctl bundle build/amd64-cloud --repository updates --keys keys --waves 1%,25%@24h,100%@72h
  loamctl bundle --refresh --repository updates --keys keys
  loamctl bundle build/amd64-metal --repository /media/usb --keys keys --valid 2160h
  loamctl bundle build/amd64-cloud --repository updates --keys keys \
    --signer 'pkcs11:token=plant?module-path=/usr/lib/softhsm/libsofthsm2.so'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if o.refresh && len(args) > 0 {
				return fmt.Errorf("--refresh publishes nothing; %q is one too many", args[0])
			}
			if o.refresh {
				return nil
			}
			return cobra.ExactArgs(1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}

			bar := progress.New(cmd.ErrOrStderr())
			defer bar.Close()
			if o.refresh {
				return o.sign(cmd.Context(), cmd.OutOrStdout(), time.Now(), bar.Update)
			}

			// What cannot be published leaves no new repository behind.
			b, err := o.read(cmd.Context(), args[0], bar.Update)
			if err != nil {
				return err
			}
			return o.add(cmd.Context(), cmd.OutOrStdout(), func() error {
				return o.publish(cmd.Context(), cmd.OutOrStdout(), b, time.Now(), bar.Update)
			})
		},
	}

	f := cmd.Flags()
	o.flags(f)
	f.IntVar(&o.epoch, "epoch", 0, "security epoch `N`, if it is not in os-release: nodes do not "+
		"go back to a lower one")
	f.StringVar(&o.waves, "waves", "", wavesFlag+"; without it, all at once")
	f.BoolVar(&o.refresh, "refresh", false, "publish nothing, but sign the repository again")
	o.sums.flags(f)
	cmd.MarkFlagsMutuallyExclusive("refresh", "waves")

	o.require(cmd)
	return cmd
}

// check refuses what would be regretted.
func (o *bundleOptions) check() error {
	if err := o.repositoryOptions.check(); err != nil {
		return err
	}
	var err error
	o.parsed, err = parseWaves(o.waves, time.Now())
	if err != nil {
		return usage.Errorf("--waves %s: %w", o.waves, err)
	}
	if o.epoch < 0 {
		return usage.Errorf("--epoch %d: want 0 or more", o.epoch)
	}

	return nil
}

// read returns the update bundle of the build in dir. Without --init, the repository
// must be there.
func (o bundleOptions) read(
	ctx context.Context, dir string, report meter.Report,
) (update.Bundle, error) {
	if err := o.exists(); err != nil {
		return update.Bundle{}, err
	}

	b, err := update.Read(ctx, dir, report)
	if err != nil {
		return update.Bundle{}, explainBuild(err, "BUILD_DIR")
	}

	if o.epoch != 0 && o.epoch < b.Index.Epoch {
		return update.Bundle{}, usage.Errorf("--epoch %d: the os-release of the build has %d", o.epoch,
			b.Index.Epoch)
	}
	b.Index.Epoch = max(o.epoch, b.Index.Epoch)
	if err := o.checkFloors(ctx, dir, b); err != nil {
		return update.Bundle{}, err
	}

	b.Waves = o.parsed
	b.SignSums, err = o.sums.signer()
	return b, err
}

// checkFloors refuses a build with software that has known holes, and a security epoch
// that goes back.
func (o bundleOptions) checkFloors(ctx context.Context, dir string, b update.Bundle) error {
	software, err := update.Software(dir)
	if err != nil {
		return err
	}
	if err := floor.Check(software); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return publish.CheckEpoch(ctx, o.repository, b.Index)
}

// publish adds the bundle to the repository.
func (o bundleOptions) publish(
	ctx context.Context, out io.Writer, b update.Bundle, now time.Time, report meter.Report,
) error {
	keys, err := o.open(ctx, out, now)
	if err != nil {
		return err
	}

	r, err := publish.Publish(ctx, o.repository, keys, b, o.expiries(), now, report)
	if err != nil {
		return err
	}

	ix := b.Index
	_, err = fmt.Fprintf(out, "%s %s, %s, %s, epoch %d: index %d KiB, pack %d KiB of %d KiB\n",
		r.ImageID, r.Version, r.Arch, r.Profile, r.Epoch, r.IndexSize>>10, ix.Pack.Size>>10,
		(ix.Root.Size+ix.Verity.Size+ix.UKI.Size)>>10)
	return err
}

// sign makes nodes take updates from the repository for longer.
func (o bundleOptions) sign(
	ctx context.Context, out io.Writer, now time.Time, report meter.Report,
) error {
	keys, err := o.open(ctx, out, now)
	if err != nil {
		return err
	}

	err = publish.Refresh(ctx, o.repository, keys, o.expiries(), now, report)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s: signed until %s\n",
		o.repository, now.Add(o.valid).UTC().Format(time.RFC3339))
	return err
}
