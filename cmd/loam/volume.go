package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/agent/volume"
	"github.com/loam-os/loam/agent/volume/manager"
	"github.com/loam-os/loam/cmd/usage"
	"github.com/loam-os/loam/hint"
)

// volumeCommand is what loam-data-volume.service and loam-etcd-volume.service run. The
// kubelet and etcd wait for them, and not for the agent: with a broken agent, pods still
// run.
func volumeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "volume [etcd]",
		Short: "Mount the data volume that the node has had, as soon as its disk is there",
		Long: `volume waits for the disk with the data volume that the node has had, and mounts it for the
kubelet. With etcd, it does so for the volume of etcd. It formats nothing.
loam-data-volume.service and loam-etcd-volume.service run it, and no operator does.`,
		Example:   "  systemctl status loam-data-volume\n  loam disks",
		ValidArgs: []string{"etcd"},
		Args:      cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs),
		RunE: func(cmd *cobra.Command, args []string) error {
			purpose := volume.Data
			if len(args) > 0 {
				purpose = volume.Etcd
			}
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

			v := manager.NewVolume(root, "/", nil, purpose)
			return v.Await(cmd.Context(), func(waits error) {
				fmt.Fprintln(cmd.ErrOrStderr(), hint.Text(waits))
			})
		},
	}
}
