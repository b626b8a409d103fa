package main

import (
	"github.com/spf13/cobra"

	"github.com/loam-os/loam/cmd/loamctl/show"
	"github.com/loam-os/loam/cmd/outcome"
)

func oscPublishCommand() *cobra.Command {
	var o secretOptions
	var from clusterOptions
	var create bool
	cmd := &cobra.Command{
		Use:               "publish PATH",
		ValidArgsFunction: completeYAML,
		Short:             "Give a configuration to the nodes of a cluster",
		Long: `publish puts the Secret that render prints into the cluster of a kubeconfig. Labels,
annotations and data that others put there stay. It prints the checksum that was there and the
one that is there now, which each Node shows once it has applied it. A Secret that is not there
yet is refused where nodes read others, because its name is probably misspelt: --new creates it.`,
		Example: "  loamctl osc publish pools/edge --name edge-1 --pool edge " +
			"--kubeconfig admin.conf",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := o.secret(args[0])
			if err != nil {
				return err
			}

			s.New = create
			server, err := from.open()
			if err != nil {
				return err
			}
			defer server.Close()

			result, err := s.Publish(cmd.Context(), server)
			if err != nil {
				return err
			}

			p := show.NewPublished(s, result)
			return outcome.Write(cmd.OutOrStdout(), from.format, p, p.Text)
		},
	}

	o.flags(cmd)
	from.flags(cmd)
	cmd.Flags().BoolVar(&create, "new", false,
		"create the Secret although the nodes of the cluster read others")

	return cmd
}
