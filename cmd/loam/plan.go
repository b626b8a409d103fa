package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/offline"
	"github.com/loam-os/loam/agent/plan"
	"github.com/loam-os/loam/agent/show"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/cmd/outcome"
)

func planCommand() *cobra.Command {
	var env offline.Env
	var format string
	var code, fromCluster bool
	cmd := &cobra.Command{
		Use:   "plan FILE",
		Short: "Show what a configuration would change, and why",
		Long: `plan shows what 'loam apply FILE' would do ("-": standard input): which files
change, which units are stopped, started, restarted or kept, and why. It changes
nothing, and needs no agent.

With --root it looks at another tree than the running node, whose units are then
taken to be as its current generation wants them. With --from-cluster it reads FILE
as if a cluster had sent it: what is then accepted although it is wrong is in the
notes.`,
		Example: `  loam plan new.yaml
  loam plan --from-cluster osc.yaml
  loam plan --exit-code new.yaml || echo there is something to do`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			doc, err := readDocument(cmd.InOrStdin(), args[0])
			if err != nil {
				return err
			}

			doc.FromCluster = fromCluster
			p, err := foresee(cmd.Context(), env, doc)
			if err != nil {
				return err
			}
			if err := outcome.Write(cmd.OutOrStdout(), format, p, p.String); err != nil {
				return err
			}

			if code && !p.Empty() {
				return outcome.ErrToDo
			}

			return nil
		},
	}

	cmd.ValidArgsFunction = completeYAML
	offlineFlags(cmd, &env)
	outcome.FormatFlag(cmd, &format, "text")
	cmd.Flags().BoolVar(&fromCluster, "from-cluster", false,
		"accept what a node accepts from a cluster")
	cmd.Flags().BoolVar(&code, "exit-code", false, "exit with 5 if there is something to do")

	return cmd
}

// foresee works out what the agent would do about doc.
func foresee(ctx context.Context, env offline.Env, doc source.Document) (show.Preview, error) {
	return preview(env, func(node *offline.Node) (plan.Plan, config.Desired, error) {
		return node.Plan(ctx, doc)
	})
}

// preview shows a plan for the node with what else there is to say about it.
func preview(
	env offline.Env, planOf func(*offline.Node) (plan.Plan, config.Desired, error),
) (show.Preview, error) {
	var p show.Preview
	err := look(env, func(node *offline.Node) error {
		planned, desired, err := planOf(node)
		if err != nil {
			return err
		}

		held, err := apply.HeldList(node.State)
		if err != nil {
			return err
		}

		journal, under, err := generation.Read(node.State).Journal()
		if err != nil {
			return err
		}

		current, _, _ := node.Current() // Plan has reported the error.
		var pending *generation.Journal
		if under {
			pending = &journal
		}

		p = show.Preview{
			Plan:  planned,
			Notes: show.Notes(desired, current, held, pending),
		}
		return nil
	})

	return p, err
}
