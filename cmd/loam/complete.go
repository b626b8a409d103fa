package main

import (
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/journal"
	"github.com/loam-os/loam/agent/offline"
	"github.com/loam-os/loam/agent/upgrade"
	"github.com/loam-os/loam/cmd/complete"
)

// completeGenerations offers the names of the node's generations, the newest
// first, for up to most arguments.
func completeGenerations(env *offline.Env, most int) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		const directive = complete.NoFiles | cobra.ShellCompDirectiveKeepOrder
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

// completeUnits offers the names of the units of the node beneath root, for up
// to most arguments.
func completeUnits(root *string, most int) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= most {
			return nil, complete.NoFiles
		}
		return unitNames(*root), complete.NoFiles
	}
}

// completeVersions offers the versions that the repository had when the node
// read it last, from the status in a file.
func completeVersions(file string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		s, err := readStatus(file)
		if err != nil || s.Upgrade == nil {
			return nil, complete.NoFiles
		}
		return s.Upgrade.Releases, complete.NoFiles | cobra.ShellCompDirectiveKeepOrder
	}
}

// completeBoots offers the boots of which the node beneath root has a journal.
func completeBoots(root *string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		boots, _ := journal.Boots(cmd.Context(), *root)
		var names []string
		for _, boot := range slices.Backward(boots) {
			names = append(names, strconv.Itoa(boot))
		}
		return names, complete.NoFiles | cobra.ShellCompDirectiveKeepOrder
	}
}

// flags has a shell complete the values of the flags of all commands. file has the
// node's status.
func flags(file string) complete.Flags {
	return complete.Flags{
		Values: map[string]cobra.CompletionFunc{
			"by":        complete.Words(upgrade.DrillCheck, upgrade.DrillPanic),
			"downgrade": complete.Files("json"),
			"facts":     complete.Files("json"),
			"from":      complete.Directories,
			"group":     complete.Words("system:masters"),
			"socket":    complete.Files(),
			"to":        completeVersions(file),
		},
		Free: map[string]string{
			"address":  "the name or address of the node for a client",
			"hostname": "the name of the node",
			"user":     "the name of the client",
		},
	}
}

// completeYAML offers files that may be a machine.yaml, or a configuration.
var completeYAML = complete.Files("yaml", "yml")
