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

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image"
	"github.com/loam-os/loam/image/inspect"
	"github.com/loam-os/loam/image/openpgp"
	"github.com/loam-os/loam/image/verify"
)

func verifyCommand() *cobra.Command {
	var sumsKey string
	cmd := &cobra.Command{
		Use:               "verify DIR",
		ValidArgsFunction: completeBuilds(0),
		Short:             "Check a finished build against its manifest, and its signatures",
		Args:              cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := verify.Build(args[0])
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

			im, err := inspect.Open(args[0])
			if err != nil {
				return err
			}
			if err := showSigners(cmd.OutOrStdout(), im); err != nil || sumsKey == "" {
				return err
			}

			by, err := verifySums(args[0], sumsKey)
			if err == nil {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: signed by %s\n", image.SumsName, by)
			}

			return err
		},
	}

	cmd.Flags().StringVar(&sumsKey, "sums-key", "",
		"public OpenPGP keys, one of which must have signed SHA256SUMS")
	return cmd
}

// showSigners says who has signed what firmware starts.
func showSigners(w io.Writer, im inspect.Image) error {
	lines := [][2]string{}
	if im.Disk != nil {
		lines = append(lines, [2]string{"boot loader", strings.Join(im.Disk.LoaderSigners, ", ")})
	}
	for _, u := range im.UKIs {
		lines = append(lines, [2]string{u.Path, strings.Join(u.Signers, ", ")})
	}

	for _, line := range lines {
		by := "not signed"
		if line[1] != "" {
			by = "signed by " + line[1]
		}
		if _, err := fmt.Fprintf(w, "%s: %s\n", line[0], by); err != nil {
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
