package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/cmd/usage"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/publish"
	"github.com/loam-os/loam/image/update"
)

// bundleOptions are the flags of bundle.
type bundleOptions struct {
	repository, keys    string
	epoch               int
	init, refresh       bool
	rootKeys, threshold int
	valid               time.Duration
	sums                sumsOptions
}

func bundleCommand() *cobra.Command {
	var o bundleOptions
	cmd := &cobra.Command{
		Use:               "bundle BUILD_DIR",
		ValidArgsFunction: completeBuilds(0),
		Short:             "Publish a build as an update, signed, in a directory",
		Long: `bundle adds the build to a repository: a directory that any web server, or a USB stick, can
give to nodes. In it are the chunks of the system, each once, an index of them, and metadata
signed as The Update Framework says; beside them what systemd-sysupdate reads. Nodes trust a
repository by its first metadata/1.root.json.

The keys are files of another directory: root-1.pem and so on, which belong offline once the
repository is there, and targets.pem, snapshot.pem, timestamp.pem. Nodes take an update from a
repository only if it was signed within the last week (--valid): --refresh signs it again. A
repository with a damaged file is not signed; the same build again repairs its release.`,
		Example: `  loamctl bundle build/amd64-cloud --repository updates --keys keys --init
  loamctl bundle build/amd64-cloud --repository updates --keys keys
  loamctl bundle --refresh --repository updates --keys keys
  loamctl bundle build/amd64-metal --repository /media/usb --keys keys --valid 2160h`,
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
			keys, err := o.open(cmd.OutOrStdout(), time.Now())
			if err != nil {
				return err
			}
			if o.refresh {
				return o.sign(cmd.OutOrStdout(), keys, time.Now())
			}
			return o.publish(cmd.OutOrStdout(), args[0], keys, time.Now())
		},
	}

	f := cmd.Flags()
	f.StringVar(&o.repository, "repository", "", "directory of the repository")
	f.StringVar(&o.keys, "keys", "", "directory of the keys that sign it")
	f.IntVar(&o.epoch, "epoch", 0, "security epoch: nodes do not go back to a lower one")
	f.BoolVar(&o.init, "init", false, "make the repository, and keys, if they are not there")
	f.BoolVar(&o.refresh, "refresh", false, "publish nothing, but sign the repository again")
	f.IntVar(&o.rootKeys, "root-keys", 1, "with --init: how many root keys")
	f.IntVar(&o.threshold, "root-threshold", 1,
		"with --init: how many root keys have to sign what replaces keys")
	o.sums.flags(f)
	f.DurationVar(&o.valid, "valid", publish.DefaultExpiries().Timestamp,
		"how long nodes take updates from it after this")

	// they are flags, see above
	_ = errors.Join(cmd.MarkFlagRequired("repository"), cmd.MarkFlagRequired("keys"))
	return cmd
}

func (o bundleOptions) expiries() publish.Expiries {
	e := publish.DefaultExpiries()
	e.Timestamp = o.valid
	return e
}

// open reads the keys. With --init, a repository that is not there is made.
func (o bundleOptions) open(out io.Writer, now time.Time) (publish.Keys, error) {
	if err := o.check(); err != nil {
		return publish.Keys{}, err
	}

	keys, err := publish.LoadKeys(o.keys)
	if err != nil || !o.init {
		return keys, err
	}

	if _, err := os.Stat(filepath.Join(o.repository, "metadata")); !errors.Is(err, fs.ErrNotExist) {
		return keys, err
	}

	if len(keys.Root) == 0 {
		keys, err = publish.NewKeys(o.keys, o.rootKeys)
		if err != nil {
			return keys, err
		}
	}

	if err := publish.Init(o.repository, keys, o.threshold, o.expiries(), now); err != nil {
		return keys, err
	}

	_, err = fmt.Fprintf(out, "%s: put %s away offline: nodes trust the repository by them, "+
		"and only new keys need them\n"+
		"%s: targets.pem and snapshot.pem publish releases, timestamp.pem is for --refresh\n",
		o.keys, filepath.Join(o.keys, "root-*.pem"), o.keys)
	return keys, err
}

// check refuses what would be regretted.
func (o bundleOptions) check() error {
	repo, err := filepath.Abs(o.repository)
	if err != nil {
		return err
	}

	keys, err := filepath.Abs(o.keys)
	if err != nil {
		return err
	}

	if rel, err := filepath.Rel(repo, keys); err == nil && filepath.IsLocal(rel) {
		return hint.With(
			usage.Errorf("--keys %s: in the repository, which is for all to read", o.keys),
			"name a directory outside of %s", o.repository,
		)
	}

	if o.threshold < 1 || o.threshold > o.rootKeys {
		return usage.Errorf("--root-threshold %d: want 1 to %d, the number of --root-keys",
			o.threshold, o.rootKeys)
	}

	if o.valid <= 0 {
		return usage.Errorf("--valid %v: want more than 0", o.valid)
	}

	return nil
}

func (o bundleOptions) publish(
	out io.Writer, dir string, keys publish.Keys, now time.Time,
) error {
	if _, err := os.Stat(o.repository); err != nil {
		return hint.With(fault.With(fmt.Errorf("repository: %w", err),
			fault.NotARepository), "--init makes a new repository")
	}

	b, err := update.Read(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return hint.With(fault.With(err, fault.NotABuild),
			"BUILD_DIR is the directory of a build, such as build/amd64-cloud")
	}

	if err != nil {
		return err
	}

	b.Index.Epoch = o.epoch
	if sums, err := o.sums.key(); err != nil {
		return err
	} else if sums != nil {
		b.SignSums = sums.Sign
	}

	r, err := publish.Publish(o.repository, keys, b, o.expiries(), now)
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
func (o bundleOptions) sign(out io.Writer, keys publish.Keys, now time.Time) error {
	if err := publish.Refresh(o.repository, keys, o.expiries(), now); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%s: signed until %s\n",
		o.repository, now.Add(o.valid).UTC().Format(time.RFC3339))
	return err
}
