package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/cmd/outcome"
)

func restartCommand() *cobra.Command {
	var client control.Client
	var format string
	root := "/"
	cmd := &cobra.Command{
		Use:   "restart UNIT...",
		Short: "Restart units of the configuration while nothing else changes the node",
		Long: `restart restarts units of the node's configuration, one after the other, and waits
until they are up. It waits for a change that is being made, and none begins
meanwhile, so that none is judged by it. A name without a dot is a service.

Loam restarts by itself what a change concerns; this is for what it cannot know,
such as a file that a program has read and nothing describes.`,
		Example: `  loam restart kubelet
  loam restart hello.service tmp-files.timer`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := interruptible(cmd)
			defer stop()

			var request control.RestartRequest
			for _, name := range args {
				request.Units = append(request.Units, unitName(name))
			}
			o, err := client.Restart(ctx, request)
			if err != nil {
				return err
			}

			return outcome.Write(cmd.OutOrStdout(), format, o, func() string {
				return fmt.Sprintf("restarted %s\n", strings.Join(request.Units, ", "))
			})
		},
	}

	socketFlag(cmd, &client)
	outcome.FormatFlag(cmd, &format, "text")
	cmd.ValidArgsFunction = completeUnits(&root, 100)
	return cmd
}
