package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/journal"
	"github.com/loam-os/loam/agent/offline"
	"github.com/loam-os/loam/agent/show"
	"github.com/loam-os/loam/cmd/outcome"
)

func whyCommand() *cobra.Command {
	var env offline.Env
	var file, format string
	var all bool
	cmd := &cobra.Command{
		Use:   "why",
		Short: "Say why the last thing went wrong",
		Long: `why shows what is wrong with the node now, or else the last configuration or
system that was tried on it and did not stay: when, for which reason, and what was
logged at that time. Of a configuration that is the log of the unit at fault, of a
system what its last boot has left in the kernel's log and in the journal. A system
that failed is not tried again without 'loam upgrade --again'.`,
		Example: "  loam why\n  loam why --all\n  loam why -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			why, err := whyOf(cmd.Context(), env, file)
			if err != nil {
				return err
			}
			return outcome.Write(cmd.OutOrStdout(), format, why, func() string { return why.Text(all) })
		},
	}

	rootFlag(cmd, &env)
	outcome.FormatFlag(cmd, &format, "text")
	cmd.Flags().BoolVar(&all, "all", false, "also what went wrong before")
	cmd.Flags().StringVar(&file, "file", "",
		"status `FILE` of another node, which tells of nothing else")
	return cmd
}

// whyOf finds out what went wrong on a node. file is a status file of another one,
// "" if none.
func whyOf(ctx context.Context, env offline.Env, file string) (show.Why, error) {
	if file != "" {
		s, err := readStatus(file)
		return show.Explain(s, nil, nil), err
	}

	var why show.Why
	err := look(env, func(node *offline.Node) error {
		records, err := apply.History(node.State)
		if err != nil {
			return err
		}
		held, err := apply.HeldList(node.State)
		if err != nil {
			return err
		}

		why = show.Explain(node.Status, records, held)
		for i, f := range why.Failures {
			if f.Unit != "" && len(f.Evidence) == 0 {
				why.Failures[i].Evidence = journal.Tail(ctx, evidenceOf(f, env.Root))
			}
		}
		return nil
	})
	return why, err
}

const (
	// evidenceLines is how many lines of a unit's log are shown.
	evidenceLines = 12
	// verdictTime is longer than a change takes from its begin to its verdict. What
	// went wrong was logged in that time before the node went back.
	verdictTime = 5 * time.Minute
)

// evidenceOf returns which entries show what went wrong. They are chosen by their
// time, whatever boot that was in.
func evidenceOf(f show.Failure, root string) journal.Query {
	q := journal.Query{Root: root, Unit: f.Unit, Lines: evidenceLines}
	if f.Kind == show.OfConfiguration {
		q.Since = f.At.Add(-verdictTime)
		q.Until = f.At
	}
	return q
}
