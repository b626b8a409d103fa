package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/agent/volume/manager"
	"github.com/loam-os/loam/cmd/usage"
	"github.com/loam-os/loam/hint"
)

// volumeCommand is what loam-data-volume.service runs. The kubelet waits for
// it, and not for the agent: with a broken agent, pods still run.
func volumeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "volume",
		Short: "Mount the data volume that the node has had, as soon as its disk is there",
		Long: `volume waits for the disk with the data volume that the node has had, and mounts it for the
kubelet. It formats nothing. loam-data-volume.service runs it, and no operator does.`,
		Example: "  systemctl status loam-data-volume\n  loam disks",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if os.Getenv("INVOCATION_ID") == "" {
				return hint.With(
					usage.Errorf(
						"`loam volume` is for systemd, which runs it: `systemctl status "+
							"loam-data-volume`",
					),
					"`loam disks` shows the disks",
				)
			}

			root, err := os.OpenRoot("/")
			if err != nil {
				return err
			}
			defer root.Close()

			return manager.NewNode(root, "/", nil).Await(cmd.Context(), func(waits error) {
				fmt.Fprintln(cmd.ErrOrStderr(), hint.Text(waits))
			})
		},
	}
}
