package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/cmd/loamctl/compose"
)

func oscValidateCommand() *cobra.Command {
	var strict bool
	cmd := &cobra.Command{
		Use:   "validate PATH...",
		Short: "Check configurations and show everything that is wrong",
		Long: `validate checks each configuration as a node does, without a node and without
a network: what secretRef and imageRef name is not looked for. It takes a file, a
directory of parts, or the Secret of a node as kubectl prints it.

What nodes accept from a cluster all the same, such as an unknown field, is a
warning. From a file, 'loam apply' and 'loamctl osc publish' refuse it, and so does
--strict.`,
		Example: "  loamctl osc validate examples/hello.yaml pools/*",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			out := cmd.OutOrStdout()
			notes := cmd.ErrOrStderr()
			return checkAll(args, out, notes, func(path string) (string, error) {
				return validate(path, strict, notes)
			})
		},
	}

	cmd.Flags().BoolVar(&strict, "strict", false, "refuse what nodes accept from a cluster only")
	return cmd
}

// validate returns that the configuration at path is valid, and writes to notes
// what nodes accept of it although it is wrong.
func validate(path string, strict bool, notes io.Writer) (string, error) {
	doc, err := compose.Read(path)
	if err != nil {
		return "", err
	}

	wrong := doc.Check()
	warnings, refusal := document.Lenient(wrong)
	switch {
	case refusal != nil, strict && len(warnings) > 0:
		return "", explain(wrong)
	case len(warnings) == 0:
		return path + ": valid\n", nil
	}

	if _, err := fmt.Fprintln(notes, explain(warnings)); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s: valid from a cluster, warnings: %d\n", path, len(warnings)), nil
}

// explain says of each warning in err that it is one.
func explain(err error) error {
	all, ok := err.(document.Errors)
	if !ok {
		return err
	}

	explained := make(document.Errors, len(all))
	for i, e := range all {
		if e.Warning {
			e.Problem = "accepted by nodes, but " + e.Problem
		}
		explained[i] = e
	}

	return explained
}
