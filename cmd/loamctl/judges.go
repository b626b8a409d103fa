package main

import "github.com/spf13/cobra"

func judgesCommand() *cobra.Command {
	var o buildOptions
	cmd := &cobra.Command{
		Use:   "judges DIR",
		Short: "Put the tools that tests need into DIR, for PATH",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := o.open(cmd.Context())
			if err != nil {
				return err
			}
			defer b.steps.Close()
			return b.writeJudges(args[0])
		},
	}
	o.flags(cmd.Flags())
	return cmd
}
