package main

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/image"
)

func verifyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "verify DIR",
		Short: "Check a finished build against its manifest",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := image.Verify(args[0])
			if errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%w\nhint: DIR is the directory of a build, such as build/amd64-cloud", err)
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s %s, %s, %s: all %d files and %d partitions are as the manifest says\n",
				m.ImageID, m.Version, m.Arch, m.Profile, len(m.Files), len(m.Partitions))
			return err
		},
	}
}
