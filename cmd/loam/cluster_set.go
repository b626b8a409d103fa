package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/offline"
	"github.com/loam-os/loam/agent/plan"
	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/local"
	"github.com/loam-os/loam/agent/show"
	"github.com/loam-os/loam/cmd/complete"
	"github.com/loam-os/loam/cmd/outcome"
	"github.com/loam-os/loam/hint"
)

func clusterSetCommand() *cobra.Command {
	var root, format string
	var plans bool
	cmd := &cobra.Command{
		Use:   "set FILE",
		Short: "Change the cluster record, or show what that would restart",
		Long: `set replaces the cluster record of this node by FILE ("-": standard input), after it
has checked it. The agent applies the change, and goes back to the configuration
before if a program does not come up. What a cluster cannot change, such as its
networks, is refused.

A record that cannot be read is replaced as well: the node has gone on with the one
before.

With --plan it changes nothing, and shows which files and units would change. If the
node does not have the version of Kubernetes, it asks the repository how much would
be fetched.`,
		Example: `  cp /var/lib/loam/plane/record.json new.json
  loam cluster set new.json --plan
  loam cluster set new.json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			doc, err := readDocument(cmd.InOrStdin(), args[0])
			if err != nil {
				return err
			}

			return withRecord(root, func(store plane.Store, before plane.Record, damage error) error {
				after, err := local.DecodeChange(
					cmd.Context(), store, root, doc.Name, doc.Text, before)
				if err != nil {
					return err
				}
				if plans {
					return planRecord(cmd.Context(), cmd.OutOrStdout(), format, root, before, after)
				}

				if damage == nil {
					err = store.ReplaceRecord(before, after)
				} else {
					err = store.ReplaceDamaged(after)
				}
				if errors.Is(err, plane.ErrChanged) {
					return hint.With(err, "compare it with FILE, and run the command again")
				}
				if err != nil {
					return err
				}
				changed := show.ChangedRecord{
					Cluster:       after.Name,
					Kubernetes:    before.Kubernetes,
					KubernetesNow: after.Kubernetes,
				}
				return outcome.Write(cmd.OutOrStdout(), format, changed, func() string {
					return fmt.Sprintf("changed the record of cluster %s: "+
						"`loam status` shows how it is applied\n", after.Name)
				})
			})
		},
	}

	cmd.ValidArgsFunction = complete.Files("json", "yaml", "yml")
	cmd.Flags().BoolVar(&plans, "plan", false, "change nothing, and show what would change")
	outcome.FormatFlag(cmd, &format, "text")
	cmd.Flags().StringVar(&root, "root", "/", "`DIR` in place of the root directory of the node")
	return cmd
}

// planRecord prints what another record would change on the node.
func planRecord(
	ctx context.Context, out io.Writer, format, root string, before, after plane.Record,
) error {
	p, err := preview(offline.Env{Root: root},
		func(node *offline.Node) (plan.Plan, config.Desired, error) {
			return node.PlanRecord(ctx, before, after)
		})
	if err != nil {
		return err
	}
	return outcome.Write(out, format, p, p.String)
}
