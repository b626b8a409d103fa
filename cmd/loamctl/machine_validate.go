package main

import (
	"github.com/spf13/cobra"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/cmd/loamctl/inventory"
	"github.com/loam-os/loam/cmd/loamctl/show"
	"github.com/loam-os/loam/cmd/outcome"
)

func machineCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "machine",
		Short: "Check and sign the machine.yaml of nodes",
		Long: `machine works on machine.yaml files, away from any node. Such a file says who a node is, and
where its configuration comes from.`,
		Example: "  loamctl machine validate machines/*.yaml",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}

	cmd.AddCommand(machineValidateCommand(), machineSignCommand(), machineCheckCommand())
	return cmd
}

func machineValidateCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:               "validate FILE...",
		ValidArgsFunction: completeYAML,
		Short:             "Check machine.yaml files and show everything that is wrong",
		Long: `validate checks each file as a node does, strictly and without a node. It shows
everything that is wrong, with line, field and a way out, and what a node with a
valid file does. A file with ` + inventory.Placeholder + `, which 'loamctl serve'
replaces by a join token, is checked as if it had one.`,
		Example: `  loamctl machine validate examples/machine.yaml machines/*.yaml
  loamctl machine validate machines/*.yaml -o json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c := checker{format: format, check: validateMachine, text: show.Verdict.String}
			return c.run(cmd, args)
		},
	}

	outcome.FormatFlag(cmd, &format, "text")
	return cmd
}

// validateMachine checks the file at path. The summary is what a node with it
// does.
func validateMachine(path string) finding {
	text, err := document.ReadFile(path)
	if err != nil {
		return findingOf(path, err)
	}

	m, err := machine.DecodeUnverified(path, inventory.Sample(text))
	if err != nil {
		return findingOf(path, err)
	}

	summary := m.Summary()
	return findingOf(path, nil, summary[:]...)
}
