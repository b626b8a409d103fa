package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/cmd/usage"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/publish"
)

// repositoryOptions are the flags of commands that publish in a repository.
type repositoryOptions struct {
	repository, keys    string
	init                bool
	rootKeys, threshold int
	valid               time.Duration
	signer              signerOptions
}

func (o *repositoryOptions) flags(f *pflag.FlagSet) {
	o.changeFlags(f)
	f.BoolVar(&o.init, "init", false, "make the repository, and keys, if they are not there")
	f.IntVar(&o.rootKeys, "root-keys", 1, "with --init: make `N` root keys")
	f.IntVar(&o.threshold, "root-threshold", 1,
		"with --init: `N` root keys have to sign what replaces keys")
}

// changeFlags are the flags of a command that changes a repository which is there.
func (o *repositoryOptions) changeFlags(f *pflag.FlagSet) {
	o.rootKeys, o.threshold = 1, 1
	f.StringVar(&o.repository, "repository", "", "`DIR` of the repository (required)")
	f.StringVar(&o.keys, "keys", "", "`DIR` with the keys that sign it (required)")
	f.DurationVar(&o.valid, "valid", publish.DefaultExpiries().Timestamp,
		"nodes take updates from it for that `TIME` after this, such as 2160h")
	o.signer.flags(f)
}

// edit returns what changes a version of the repository.
func (o repositoryOptions) edit(
	cmd *cobra.Command, version string, now time.Time,
) (publish.Edit, error) {
	if o.keys == "" {
		return publish.Edit{}, usage.Errorf("--keys is missing")
	}
	if err := o.check(); err != nil {
		return publish.Edit{}, err
	}
	if err := o.exists(); err != nil {
		return publish.Edit{}, err
	}
	keys, err := publish.LoadKeys(o.keys, o.signer.external(cmd.Context()))
	return publish.Edit{
		Dir:      o.repository,
		Version:  version,
		Keys:     keys,
		Expiries: o.expiries(),
		Now:      now,
	}, err
}

// require makes the flags required that have no default.
func (o *repositoryOptions) require(cmd *cobra.Command) {
	// they are flags, see above
	_ = errors.Join(cmd.MarkFlagRequired("repository"), cmd.MarkFlagRequired("keys"))
}

func (o repositoryOptions) expiries() publish.Expiries {
	e := publish.DefaultExpiries()
	e.Timestamp = o.valid
	return e
}

// check refuses what would be regretted.
func (o repositoryOptions) check() error {
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

	if o.rootKeys < 1 {
		return usage.Errorf("--root-keys %d: want 1 or more", o.rootKeys)
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

// exists reports an error if the repository is not there. With --init, it may be
// absent.
func (o repositoryOptions) exists() error {
	info, err := os.Stat(o.repository)
	if err == nil && !info.IsDir() {
		err = &fs.PathError{Op: "open", Path: o.repository, Err: unix.ENOTDIR}
		return fmt.Errorf("repository: %w", err)
	}
	if errors.Is(err, fs.ErrNotExist) && !o.init {
		return hint.With(fault.With(fmt.Errorf("repository: %w", err),
			fault.NotARepository), "--init makes a new repository")
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("repository: %w", err)
	}
	return nil
}

// add calls do, which adds something to the repository. It says so if that was
// there already, as nothing is signed then.
func (o repositoryOptions) add(ctx context.Context, out io.Writer, do func() error) error {
	before, err := publish.LastSignature(ctx, o.repository)
	if err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	after, err := publish.LastSignature(ctx, o.repository)
	if err != nil || after.Version != before.Version {
		return err
	}

	_, err = fmt.Fprintf(out, "%s: it was published before, and nothing was signed: nodes take "+
		"updates from it until %s\n`loamctl bundle --refresh` signs it for longer\n",
		o.repository, after.Until.UTC().Format(time.RFC3339))
	return err
}

// open reads the keys. With --init, a repository that is not there is made.
func (o repositoryOptions) open(
	ctx context.Context, out io.Writer, now time.Time,
) (publish.Keys, error) {
	keys, err := publish.LoadKeys(o.keys, o.signer.external(ctx))
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
