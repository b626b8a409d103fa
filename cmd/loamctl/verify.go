package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/cmd/progress"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image"
	"github.com/loam-os/loam/image/inspect"
	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/image/openpgp"
	"github.com/loam-os/loam/image/osv"
	"github.com/loam-os/loam/image/verify"
)

func verifyCommand() *cobra.Command {
	var sumsKey string
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
  loamctl verify build/amd64-cloud --vulnerabilities debian.zip --vulnerabilities go.zip`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if sumsKey != "" {
				if err := openpgp.CheckKeys(sumsKey); err != nil {
					return err
				}
			}

			bar := progress.New(cmd.ErrOrStderr())
			defer bar.Close()
			m, err := verify.Build(cmd.Context(), args[0], bar.Update)
			bar.Close()
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
				return hint.With(fault.With(err, fault.NotABuild),
					"DIR is the directory of a build, such as build/amd64-cloud")
			}

			if fault.Of(err) == fault.Failed {
				return fault.With(err, fault.BuildDamaged)
			}
			if err != nil {
				return err
			}

			_, err = fmt.Fprintf(cmd.OutOrStdout(),
				"%s %s, %s, %s: all %d files and %d partitions are as the manifest says\n",
				m.ImageID, m.Version, m.Arch, m.Profile, len(m.Files), len(m.Partitions))
			if err != nil {
				return err
			}

			if !m.PackagesDate.IsZero() {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "Debian packages of %s, %s old\n",
					m.PackagesDate.UTC().Format(time.DateOnly), days(time.Since(m.PackagesDate)))
			}
			if err != nil {
				return err
			}

			im, err := inspect.Open(cmd.Context(), args[0], bar.Update)
			if err != nil {
				return err
			}
			if err := showSigners(cmd.OutOrStdout(), im); err != nil {
				return err
			}

			if sumsKey != "" {
				by, err := verifySums(args[0], sumsKey)
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: signed by %s\n", image.SumsName, by)
				if err != nil {
					return err
				}
			}

			if len(databases) == 0 {
				return nil
			}
			return showVulnerabilities(cmd.OutOrStdout(), im, databases)
		},
	}

	cmd.Flags().StringVar(&sumsKey, "sums-key", "",
		"`FILE` with public OpenPGP keys, one of which must have signed SHA256SUMS")
	cmd.Flags().StringArrayVar(&databases, "vulnerabilities", nil,
		"`FILE` with known vulnerabilities (OSV), none with a fix of which the build may have; also several")
	return cmd
}

// showVulnerabilities says which known vulnerabilities the software of an image
// has. One that has a fix is an error.
func showVulnerabilities(w io.Writer, im inspect.Image, databases []string) error {
	db, err := osv.Open(databases...)
	if err != nil {
		return err
	}

	// Entries for the same system have the same software.
	var software []manifest.Package
	if len(im.UKIs) > 0 {
		software = im.UKIs[0].Packages
	}
	if len(software) == 0 {
		return fault.With(errors.New("the build has no SBOM"), fault.BuildDamaged)
	}

	all, err := db.Find(software)
	if err != nil {
		return err
	}

	fixable := 0
	for _, f := range all {
		if f.Fixed == "" {
			continue
		}
		fixable++
		if _, err := fmt.Fprintln(w, f); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(w, "known vulnerabilities (database of %s): with a fix %d, without %d\n",
		db.Newest.UTC().Format(time.DateOnly), fixable, len(all)-fixable)
	if err != nil || fixable == 0 {
		return err
	}
	return hint.With(fault.With(
		fmt.Errorf("known vulnerabilities that have a fix: %d", fixable), fault.Vulnerable),
		"`loamctl build --update-packages` takes today's packages")
}

// showSigners says who has signed what firmware starts.
func showSigners(w io.Writer, im inspect.Image) error {
	say := func(what string, by []string) error {
		text := "not signed"
		if len(by) > 0 {
			text = "signed by " + strings.Join(by, ", ")
		}
		_, err := fmt.Fprintf(w, "%s: %s\n", what, text)
		return err
	}

	if im.Disk != nil {
		if err := say("boot loader", im.Disk.LoaderSigners); err != nil {
			return err
		}
	}
	for _, u := range im.UKIs {
		if err := say(u.Path, u.Signers); err != nil {
			return err
		}
		if len(u.PCRKeys) == 0 {
			continue
		}
		if err := say(u.Path+", PCR 11", u.PCRKeys); err != nil {
			return err
		}
	}

	return nil
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
