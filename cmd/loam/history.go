package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/offline"
	"github.com/loam-os/loam/agent/show"
	"github.com/loam-os/loam/cmd/outcome"
)

func historyCommand() *cobra.Command {
	var env offline.Env
	var format string
	cmd := &cobra.Command{
		Use:   "history",
		Short: "Show what was applied, when, and what became of it",
		Long: `history lists the changes of the node, oldest first, the one that is under way,
and the configurations that are held. It needs no agent.`,
		Example: `  loam history
  loam history -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return look(env, func(node *offline.Node) error {
				h, err := historyOf(node)
				if err != nil {
					return err
				}
				return outcome.Write(cmd.OutOrStdout(), format, h, func() string {
					return h.Text(time.Local)
				})
			})
		},
	}

	rootFlag(cmd, &env)
	outcome.FormatFlag(cmd, &format, "text")
	return cmd
}

func historyOf(node *offline.Node) (h show.History, err error) {
	h.Records, err = apply.History(node.State)
	if err != nil {
		return h, err
	}

	h.Held, err = apply.HeldList(node.State)
	if err != nil {
		return h, err
	}

	current, _, err := node.Current()
	if err != nil && !errors.Is(err, generation.ErrIncomplete) {
		return h, err
	}

	h.Current = current.Name()
	state := generation.Read(node.State)
	h.Kept, err = state.List()
	if err != nil {
		return h, err
	}

	journal, under, err := state.Journal()
	if err != nil || !under {
		return h, err
	}

	h.Pending = &show.Pending{
		To:    journal.To,
		From:  journal.From,
		Good:  journal.Good,
		Began: journal.Began,
		Back:  journal.Back,
	}
	if journal.Try != nil {
		h.Pending.Until = journal.Try.Until
	}
	if m, err := state.Load(journal.To); err == nil {
		h.Pending.Source = m.Source
	}
	if node.Status.Change != nil && node.Status.Generation == journal.To {
		h.Pending.Waits = node.Status.Change.Waits
	}

	return h, nil
}
