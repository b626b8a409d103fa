package main

import "github.com/spf13/cobra"

func oscRenderCommand() *cobra.Command {
	var o secretOptions
	cmd := &cobra.Command{
		Use:               "render PATH",
		ValidArgsFunction: completeYAML,
		Short:             "Print a configuration as the Secret that nodes read",
		Long: `render prints the Secret of a configuration as YAML. Where it is long, kubectl
needs --server-side to take it. Images have to be named by a digest, unless --allow-tags is given.`,
		Example: "  loamctl osc render pools/edge --name edge-1 --pool edge | kubectl apply " +
			"--server-side -f -",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := o.secret(args[0])
			if err != nil {
				return err
			}
			return s.Write(cmd.OutOrStdout())
		},
	}

	o.flags(cmd)
	return cmd
}
