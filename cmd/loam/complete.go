package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/offline"
	"github.com/loam-os/loam/agent/upgrade"
)

// completeGenerations offers the names of the node's generations, the newest
// first, for up to most arguments.
func completeGenerations(env *offline.Env, most int) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		const directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
		if len(args) >= most {
			return nil, directive
		}

		// An error must not appear in the line that is being typed.
		var names []string
		_ = look(*env, func(node *offline.Node) (err error) {
			names, err = generation.Read(node.State).List()
			return err
		})
		slices.Reverse(names)
		return names, directive
	}
}

// noFiles makes a shell offer only the given words, and no files.
const noFiles = cobra.ShellCompDirectiveNoFileComp

// completeUnits offers the names of the units of the node beneath root, for up
// to most arguments.
func completeUnits(root *string, most int) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= most {
			return nil, noFiles
		}
		return unitNames(*root), noFiles
	}
}

// completeVersions offers the versions that the repository had when the node
// read it last, from the status in a file.
func completeVersions(file string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		s, err := readStatus(file)
		if err != nil || s.Upgrade == nil {
			return nil, noFiles
		}
		return s.Upgrade.Releases, noFiles | cobra.ShellCompDirectiveKeepOrder
	}
}

// completeFlags makes a shell complete the values of the flags of all commands,
// except of [outcome.FormatFlag]. file has the node's status.
func completeFlags(cmd *cobra.Command, file string) {
	values := map[string]cobra.CompletionFunc{
		"to": completeVersions(file),
		"by": cobra.FixedCompletions([]string{upgrade.DrillCheck, upgrade.DrillPanic}, noFiles),
	}
	for _, sub := range cmd.Commands() {
		for name, complete := range values {
			if sub.Flags().Lookup(name) != nil {
				_ = sub.RegisterFlagCompletionFunc(name, complete)
			}
		}
	}
}

// completeYAML offers files that may be a machine.yaml, or a configuration.
func completeYAML(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
}
