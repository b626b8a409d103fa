package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/cmd/loamctl/schema"
)

func schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema machine|osc",
		Short: "Print the JSON schema of a document, for editors",
		Long: `schema prints the JSON schema (draft 2020-12) of machine.yaml or of an
OperatingSystemConfig. An editor that knows it completes fields, explains them and
marks what is unknown. A YAML file names its schema in its first line:

  # yaml-language-server: $schema=machine.schema.json

What a value has to be, beyond its type, only 'loamctl machine validate' and
'loamctl osc validate' know.`,
		Example:   "  loamctl schema machine > machine.schema.json",
		ValidArgs: []string{"machine", "osc"},
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		RunE: func(cmd *cobra.Command, args []string) error {
			text := map[string]string{"machine": schema.Machine, "osc": schema.OSC}[args[0]]
			_, err := io.WriteString(cmd.OutOrStdout(), text)
			return err
		},
	}
}
