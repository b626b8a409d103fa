package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/agent/control"
)

func rollbackCommand() *cobra.Command {
	var client control.Client
	cmd := &cobra.Command{
		Use:   "rollback [GENERATION]",
		Short: "Go back to an earlier generation",
		Long: `rollback makes an earlier generation the current one, by number or name; without
one, that before the current. 'loam history' lists them. What the node goes back
from is held: it is not applied again unless 'loam apply' asks for it, or the
source says something new.`,
		Example: `  loam rollback
  loam rollback 41`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var request control.RollbackRequest
			if len(args) > 0 {
				request.Generation = args[0]
			}
			ctx, stop := interruptible(cmd)
			defer stop()
			o, err := client.Rollback(ctx, request)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "back at %s; %s is held until `loam apply` asks for it\n", o.Generation, o.From)
			return err
		},
	}
	socketFlag(cmd, &client)
	return cmd
}
