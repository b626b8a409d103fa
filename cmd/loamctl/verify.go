package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/cmd/loamctl/show"
	"github.com/loam-os/loam/cmd/outcome"
	"github.com/loam-os/loam/cmd/progress"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image"
	"github.com/loam-os/loam/image/inspect"
	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/image/meter"
	"github.com/loam-os/loam/image/openpgp"
	"github.com/loam-os/loam/image/osv"
	"github.com/loam-os/loam/image/verify"
)

func verifyCommand() *cobra.Command {
	var format, sumsKey string
	var databases []string
	cmd := &cobra.Command{
		Use:               "verify DIR",
		ValidArgsFunction: completeBuilds(0),
		Short:             "Check a finished build against its manifest, and its signatures",
		Long: `verify reads all of a build and checks what its manifest says: partitions, the root file
system by its root hash, boot entries, the update, and the digest of each file. It says who has
signed what firmware starts; --sums-key has to have signed the list of digests.

With --vulnerabilities it compares the software of the build with a database of known
vulnerabilities, without a network: a ZIP archive of OSV, or a JSON file of its format. One that has
a fix is an error; those without are counted.`,
		Example: `  loamctl verify build/amd64-cloud
  loamctl verify build/amd64-cloud --sums-key release.pub
  loamctl verify build/amd64-cloud --vulnerabilities debian.zip --vulnerabilities go.zip
  loamctl verify build/amd64-cloud -o json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if sumsKey != "" {
				if err := openpgp.CheckKeys(sumsKey); err != nil {
					return err
				}
			}

			bar := progress.New(cmd.ErrOrStderr())
			defer bar.Close()
			build, err := observeBuild(cmd.Context(), args[0], bar.Update)
			if err != nil {
				return err
			}

			if sumsKey != "" {
				build.SumsSigner, err = verifySums(args[0], sumsKey)
				if err != nil {
					return err
				}
			}
			if len(databases) > 0 {
				build.Vulnerabilities, err = findVulnerabilities(
					cmd.Context(), build.software, databases, bar.Update)
				if err != nil {
					return err
				}
			}
			bar.Close()

			text := func() string { return build.Text(time.Now()) }
			if err := outcome.Write(cmd.OutOrStdout(), format, build.Build, text); err != nil {
				return err
			}
			return refuseVulnerable(build.Vulnerabilities)
		},
	}

	outcome.FormatFlag(cmd, &format, "text")
	cmd.Flags().StringVar(&sumsKey, "sums-key", "",
		"`FILE` with public OpenPGP keys, one of which must have signed SHA256SUMS")
	cmd.Flags().StringArrayVar(&databases, "vulnerabilities", nil,
		"`FILE` with known vulnerabilities (OSV), none with a fix of which the build may have; also several")
	return cmd
}

// verifiedBuild is a build that was verified, and the software in it.
type verifiedBuild struct {
	show.Build
	software []manifest.Package
}

// observeBuild verifies the build in a directory, and reads who has signed what
// firmware starts.
func observeBuild(ctx context.Context, dir string, report meter.Report) (verifiedBuild, error) {
	m, err := verify.Build(ctx, dir, report)
	if err != nil {
		return verifiedBuild{}, explainBuild(err, "DIR")
	}

	im, err := inspect.Open(ctx, dir, report)
	if err != nil {
		return verifiedBuild{}, err
	}

	build := verifiedBuild{Build: show.NewBuild(m, im)}
	if len(im.UKIs) > 0 { // Entries for the same system have the same software.
		build.software = im.UKIs[0].Packages
	}
	return build, nil
}

// explainBuild adds to the error of a directory without a manifest how the command
// line calls it.
func explainBuild(err error, name string) error {
	missing := errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
	if missing && fault.Of(err) == fault.NotABuild {
		return hint.With(err, "%s is the directory of a build, such as build/amd64-cloud", name)
	}
	return err
}

// findVulnerabilities returns which vulnerabilities in databases software has.
func findVulnerabilities(
	ctx context.Context, software []manifest.Package, databases []string, report meter.Report,
) (*show.Vulnerabilities, error) {
	db, err := osv.Open(ctx, report, databases...)
	if err != nil {
		return nil, err
	}
	if len(software) == 0 {
		return nil, fault.With(errors.New("the build has no SBOM"), fault.BuildDamaged)
	}

	found, err := db.Find(software)
	if err != nil {
		return nil, err
	}
	return show.NewVulnerabilities(db.Newest, found), nil
}

// refuseVulnerable returns an error if a vulnerability has a fix. v is nil if
// none was looked for.
func refuseVulnerable(v *show.Vulnerabilities) error {
	if v == nil || len(v.WithFix) == 0 {
		return nil
	}
	return hint.With(fault.With(
		fmt.Errorf("known vulnerabilities that have a fix: %d", len(v.WithFix)), fault.Vulnerable),
		"`loamctl build --update-packages` takes today's packages")
}

// verifySums says who of those whose keys are in a file has signed the sums of
// a build.
func verifySums(dir, keys string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, image.SumsName))
	if err != nil {
		return "", err
	}

	signature, err := os.ReadFile(filepath.Join(dir, image.SumsSignature))
	if err != nil {
		return "", hint.With(err, "`loamctl sign --sums-key` makes it")
	}

	by, err := openpgp.Verify(keys, text, signature, time.Now())
	if err != nil {
		return "", fmt.Errorf("%s: %w", filepath.Join(dir, image.SumsSignature), err)
	}

	return by, nil
}
