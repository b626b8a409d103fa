package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/cmd/outcome"
)

func confirmCommand() *cobra.Command {
	var client control.Client
	var format string
	cmd := &cobra.Command{
		Use:   "confirm",
		Short: "Keep the change that is on trial",
		Long: `confirm keeps the change that 'loam apply --try' made. Until its units have
proven themselves, the agent still takes it back if they do not.`,
		Example: `  loam apply --try 5m new.yaml && loam confirm`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := interruptible(cmd)
			defer stop()

			o, err := client.Confirm(ctx)
			if err != nil {
				return err
			}

			return outcome.Write(cmd.OutOrStdout(), format, o, func() string {
				return fmt.Sprintf("confirmed %s\n", o.Generation)
			})
		},
	}

	socketFlag(cmd, &client)
	outcome.FormatFlag(cmd, &format, "text")
	return cmd
}
