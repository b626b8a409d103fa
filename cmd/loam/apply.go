package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/agent"
	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/offline"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/cmd/outcome"
	"github.com/loam-os/loam/cmd/usage"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// applying is what `loam apply` was asked for.
type applying struct {
	env    offline.Env
	client control.Client
	try    time.Duration
	dryRun bool
	format string
	// file is "" for the node's own source.
	file string
}

func applyCommand() *cobra.Command {
	var a applying
	cmd := &cobra.Command{
		Use:   "apply [FILE]",
		Short: "Apply a configuration and see whether the node stays well",
		Long: `apply makes the node what FILE says ("-": standard input), and waits until its
units have proven themselves. If they do not, the agent takes the change back.
Without FILE, the node's own source counts again, even if what it says is held.

What is applied stays until the source says something new. With --try, it goes
back by itself unless 'loam confirm' comes in time, also after a power cut.`,
		Example: `  loam apply new.yaml
  loam apply --try 5m new.yaml && loam confirm
  loam apply --dry-run new.yaml`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				a.file = args[0]
			}
			return a.run(cmd)
		},
	}

	cmd.ValidArgsFunction = completeYAML
	offlineFlags(cmd, &a.env)
	socketFlag(cmd, &a.client)
	outcome.FormatFlag(cmd, &a.format, "text")
	cmd.Flags().DurationVar(&a.try, "try", 0,
		"take the change back after that `TIME`, such as 5m, unless it is confirmed")
	cmd.Flags().BoolVar(&a.dryRun, "dry-run", false, "only show the plan, as 'loam plan' does")

	return cmd
}

// maxTry is the longest trial: a forgotten trial ends within a month.
const maxTry = 30 * 24 * time.Hour

func (a applying) run(cmd *cobra.Command) error {
	if a.try < 0 || a.try > maxTry || (a.try == 0 && cmd.Flags().Changed("try")) {
		return usage.Errorf("--try %s: want more than 0, and at most 30 days", a.try)
	}

	var doc source.Document
	if a.file != "" {
		var err error
		doc, err = readDocument(cmd.InOrStdin(), a.file)
		if err != nil {
			return err
		}
		if err := a.plan(cmd, doc); err != nil || a.dryRun {
			return err
		}
	} else if a.dryRun {
		return hint.With(
			usage.Errorf("--dry-run without FILE: only the agent reads the node's source"),
			"loam apply --dry-run FILE",
		)
	}

	ctx, stop := interruptible(cmd)
	defer stop()
	return a.ask(ctx, cmd.OutOrStdout(), progressTo(cmd, a.format), doc)
}

// plan prints the expected changes; as JSON only if they are all that is asked for. A mistake in the document ends the command
// here; after any other error the agent still acts.
func (a applying) plan(cmd *cobra.Command, doc source.Document) error {
	p, err := foresee(cmd.Context(), a.env, doc)
	_, wrong := errors.AsType[document.Errors](err)
	_, cannot := errors.AsType[*generation.Error](err)
	switch {
	case err == nil && !a.dryRun && outcome.IsJSON(a.format):
		return nil
	case err == nil:
		return outcome.Write(cmd.OutOrStdout(), a.format, p, p.String)
	case wrong || cannot || a.dryRun:
		return err
	}

	fmt.Fprintln(progressTo(cmd, a.format), hint.Sprintf("loam: no plan: %v", err))
	return nil
}

func (a applying) ask(ctx context.Context, out, progress io.Writer, doc source.Document) error {
	a.client.Asked = sync.OnceFunc(func() {
		fmt.Fprintln(progress, "asked the agent, which applies it and then watches the units...")
	})
	stop := watching(ctx, progress, status.Path, agent.Uptime)
	o, err := a.client.Apply(ctx,
		control.ApplyRequest{Name: doc.Name, Document: string(doc.Text), Try: a.try})
	stop()
	if err != nil {
		return err
	}
	return showOutcome(out, a.format, o)
}

// showOutcome says what became of a change that was watched.
func showOutcome(out io.Writer, format string, o control.Outcome) error {
	if o.Result == control.Reverted {
		err := fault.With(fmt.Errorf("%s was taken back: %s\nthe node runs %s again",
			o.From, o.Reason, o.Generation), fault.TakenBack)
		if o.Unit != "" {
			err = hint.With(err, "`loam logs %s`", o.Unit)
		}
		return hint.With(err, "correct it, or try it again with `loam apply`")
	}
	return outcome.Write(out, format, o, func() string { return outcomeText(o) })
}

// outcomeText says for people what became of a change that stays.
func outcomeText(o control.Outcome) string {
	switch o.Result {
	case control.Unchanged:
		return fmt.Sprintf("unchanged: the node runs %s already\n", o.Generation)
	case control.Trying:
		return fmt.Sprintf("on trial until %s: %s\n"+
			"  `loam confirm` keeps it, `loam rollback` ends it\n", localTime(o.Until), o.Generation)
	}

	text := fmt.Sprintf("%s %s\n", o.Result, o.Generation)
	if o.Reason != "" {
		text += "warning: " + o.Reason + "\n"
	}
	return text
}

// localTime is a time of day of this machine, with its date.
func localTime(t time.Time) string { return t.Local().Format(status.Clock) }
