package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/cmd/loamctl/compose"
)

func oscValidateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "validate PATH...",
		Short: "Check configurations and show everything that is wrong",
		Long: `validate checks each configuration as a node does, without a node and without
a network: what secretRef and imageRef name is not looked for.`,
		Example: "  loamctl osc validate examples/hello.yaml pools/*",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var errs []error
			for _, path := range args {
				if err := validate(path); err != nil {
					errs = append(errs, err)
					continue
				}
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: valid\n", path); err != nil {
					return err
				}
			}
			return errors.Join(errs...)
		},
	}
}

func validate(path string) error {
	doc, err := compose.Read(path)
	if err != nil {
		return err
	}
	return doc.Check()
}
