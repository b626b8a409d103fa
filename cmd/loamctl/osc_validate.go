package main

import (
	"github.com/spf13/cobra"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/cmd/loamctl/compose"
	"github.com/loam-os/loam/cmd/loamctl/show"
	"github.com/loam-os/loam/cmd/outcome"
)

func oscValidateCommand() *cobra.Command {
	var format string
	var strict bool
	cmd := &cobra.Command{
		Use:               "validate PATH...",
		ValidArgsFunction: completeYAML,
		Short:             "Check configurations and show everything that is wrong",
		Long: `validate checks each configuration as a node does, without a node and without
a network: what secretRef and imageRef name is not looked for. It takes a file, a
directory of parts, or the Secret of a node as kubectl prints it.

What nodes accept from a cluster all the same, such as an unknown field, is a
warning. From a file, 'loam apply' and 'loamctl osc publish' refuse it, and so does
--strict. So is an image that a tag names, and no digest, except in the Secret of a node.`,
		Example: `  loamctl osc validate examples/hello.yaml pools/*
  loamctl osc validate pools/* -o json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c := checker{
				format: format,
				check:  func(path string) finding { return validate(path, strict) },
				text:   show.Verdict.String,
			}
			return c.run(cmd, args)
		},
	}

	outcome.FormatFlag(cmd, &format, "text")
	cmd.Flags().BoolVar(&strict, "strict", false, "refuse what nodes accept from a cluster only")
	return cmd
}

// validate checks the configuration at path. What nodes accept of it although it
// is wrong is a warning, and a fault if strict.
func validate(path string, strict bool) finding {
	doc, err := compose.Read(path)
	if err != nil {
		return findingOf(path, err)
	}

	wrong := doc.Check()
	if wrong == nil && !doc.IsSecret() { // Gardener names only tags.
		wrong = doc.Tags()
	}
	warnings, refusal := document.Lenient(wrong)
	if strict && len(warnings) > 0 {
		warnings, refusal = nil, wrong
	}

	f := findingOf(path, refusal)
	if len(warnings) > 0 {
		f.Warnings = show.Faults(warnings)
	}
	switch {
	case refusal != nil: // Its text has the warnings, too, by line.
		f.fault = explain(wrong)
	case len(warnings) > 0:
		f.warnings = explain(warnings)
	}
	return f
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
