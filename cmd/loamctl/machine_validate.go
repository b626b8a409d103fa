package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/cmd/loamctl/inventory"
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
	return &cobra.Command{
		Use:   "validate FILE...",
		Short: "Check machine.yaml files and show everything that is wrong",
		Long: `validate checks each file as a node does, strictly and without a node. It shows
everything that is wrong, with line, field and a way out, and what a node with a
valid file does. A file with ` + inventory.Placeholder + `, which 'loamctl serve'
replaces by a join token, is checked as if it had one.`,
		Example: "  loamctl machine validate examples/machine.yaml machines/*.yaml",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return checkAll(args, cmd.OutOrStdout(), cmd.ErrOrStderr(), validateMachine)
		},
	}
}

// validateMachine returns what a node with the file at path does.
func validateMachine(path string) (string, error) {
	text, err := document.ReadFile(path)
	if err != nil {
		return "", err
	}

	m, err := machine.DecodeUnverified(path, inventory.Sample(text))
	if err != nil {
		return "", err
	}

	summary := m.Summary()
	return fmt.Sprintf("%s: valid\n  %s\n  %s\n", path, summary[0], summary[1]), nil
}
