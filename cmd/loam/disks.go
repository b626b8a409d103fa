package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/volume"
)

func disksCommand() *cobra.Command {
	var root string
	cmd := &cobra.Command{
		Use:   "disks [MACHINE.yaml]",
		Short: "Show the disks, what is on them, and how to claim them",
		Long: `disks shows each disk of the machine, what uses it, which tables and signatures
are on it, and the line of machine.yaml that would claim it for what the kubelet
keeps. With a machine.yaml, it shows which disk that claims, and what would be
done with it. It reads, and writes nothing.`,
		Example: "  loam disks\n  loam disks machine.yaml",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			disks, err := volume.Observe(volume.Machine{
				Root: os.DirFS(root),
				Open: func(node string, exclusive bool) (volume.Device, error) {
					return volume.OpenToLook(filepath.Join(root, node), exclusive)
				},
			})
			if err != nil {
				return err
			}

			if len(args) == 0 {
				return showDisks(cmd.OutOrStdout(), disks)
			}

			return showClaimed(cmd.OutOrStdout(), disks, args[0])
		},
	}

	cmd.Flags().StringVar(&root, "root", "/", "root directory of the node")
	return cmd
}

// showDisks lists the disks, as the refusal of a missing claim does.
func showDisks(out io.Writer, disks []volume.Disk) error {
	_, err := volume.Decide(volume.Facts{Disks: disks}, volume.Claim{})
	refusal := &volume.Refusal{}
	if !errors.As(err, &refusal) {
		return err
	}

	_, err = io.WriteString(out, refusal.ListParts())
	return err
}

// showClaimed says which disk the machine.yaml in file claims.
func showClaimed(out io.Writer, disks []volume.Disk, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}

	m, err := machine.Decode(file, text)
	if err != nil {
		return err
	}

	choice, err := volume.Decide(volume.Facts{Disks: disks}, m.DataVolume.Claim())
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}

	what := map[volume.Action]string{
		volume.ToUse:    "has the data volume (" + choice.FileSystem + ")",
		volume.ToFormat: "is empty, and would be formatted",
		volume.ToFinish: "has an unfinished data volume, and would be formatted again",
	}

	_, err = fmt.Fprintf(out, "%s: %s\n", choice.Device, what[choice.Action])
	return err
}
