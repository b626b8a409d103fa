package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/offline"
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

// noFiles has a shell offer nothing but what it is given.
const noFiles = cobra.ShellCompDirectiveNoFileComp

// completeUnits offers the names of the units of the node beneath root, for up to
// most arguments.
func completeUnits(root *string, most int) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= most {
			return nil, noFiles
		}
		return unitNames(*root), noFiles
	}
}
