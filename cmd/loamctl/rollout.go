package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/turns"
	"github.com/loam-os/loam/cmd/loamctl/kubeconfig"
	"github.com/loam-os/loam/cmd/loamctl/rollout"
	"github.com/loam-os/loam/cmd/loamctl/show"
	"github.com/loam-os/loam/cmd/outcome"
	"github.com/loam-os/loam/cmd/usage"
	"github.com/loam-os/loam/hint"
)

func rolloutCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rollout",
		Short: "See and steer how the nodes of a pool change",
		Long: `rollout works on the ledger of a pool, in which the nodes take turns by a policy. The
ledger is the Lease loam-rollout-POOL in namespace kube-system. In Gardener, it has the name of the
Secret with the configuration, which is POOL then. What you may do is what your kubeconfig may: list
Nodes, get and update that Lease, patch it to pause a busy pool, for forget and retry, get and
update the Node and, for plan and retry, get the Secret. If you may, status says by the policy why
no node begins although the rollout runs.`,
		Example: "  loamctl rollout status edge\n" +
			"  loamctl rollout pause edge --reason \"the weekend\"",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}

	cmd.AddCommand(rolloutStatusCommand(), rolloutPlanCommand(), rolloutPauseCommand(),
		rolloutResumeCommand(), rolloutNowCommand(), rolloutRetryCommand(), rolloutForgetCommand(),
		rolloutPolicyCommand())
	return cmd
}

// clusterOptions are the flags that say which cluster to ask, and how to print the
// answer.
type clusterOptions struct{ file, context, format string }

func (o *clusterOptions) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.file, "kubeconfig", "",
		"kubeconfig `FILE` of the cluster (default: KUBECONFIG, or ~/.kube/config)")
	cmd.Flags().StringVar(&o.context, "context", "",
		"context `NAME` of the kubeconfig (default: its current one)")
	outcome.FormatFlag(cmd, &o.format, "text")
}

// open connects to the cluster. The caller closes the server.
func (o clusterOptions) open() (*kubeconfig.Server, error) {
	return kubeconfig.Open(kubeconfig.Files(o.file, os.Getenv), o.context)
}

// steer calls do with the rollout of a pool and prints how the pool stands with
// the ledger that it returns.
func (o clusterOptions) steer(
	cmd *cobra.Command, pool string,
	do func(ctx context.Context, r rollout.Rollout) (turns.Ledger, error),
) error {
	return o.withPool(cmd, pool, func(r rollout.Rollout) error {
		report, err := reportAfter(cmd.Context(), r, do)
		if err != nil {
			return err
		}
		return o.print(cmd.OutOrStdout(), report)
	})
}

// withPool calls do with the rollout of a pool.
func (o clusterOptions) withPool(
	cmd *cobra.Command, pool string, do func(r rollout.Rollout) error,
) error {
	server, err := o.open()
	if err != nil {
		return err
	}
	defer server.Close()
	return do(rollout.Rollout{API: server, Pool: pool})
}

// reportAfter returns how the pool stands with the ledger that do returns.
func reportAfter(
	ctx context.Context, r rollout.Rollout,
	do func(ctx context.Context, r rollout.Rollout) (turns.Ledger, error),
) (rollout.Report, error) {
	l, err := do(ctx, r)
	if err != nil {
		return rollout.Report{}, err
	}
	report, err := r.Report(ctx, l, time.Now())
	if err != nil {
		err = fmt.Errorf("the ledger of pool %s is %s now, but its Nodes cannot be shown: %w", r.Pool,
			report.State, err)
	}
	return report, err
}

// print prints what a verb observed in the format that was asked for.
func (o clusterOptions) print(w io.Writer, p fmt.Stringer) error {
	return outcome.Write(w, o.format, p, p.String)
}

func rolloutStatusCommand() *cobra.Command {
	var o clusterOptions
	var watch bool
	cmd := &cobra.Command{
		Use:               "status POOL",
		ValidArgsFunction: completePools,
		Short:             "Show how far the rollouts of a pool are",
		Long: `status prints how many nodes are done and have failed since the last configuration
was published, at which rate, and when they end at that rate; the same for systems; which nodes have
a turn and for how long; and which others are away. A node that needed no turn is not counted as
done. With --watch it goes on until Ctrl-C: a terminal shows the page again and again, any other
output gets the page when it changes. What fails after the first page is said on standard error, and
tried again. It names the Nodes that are pinned, those that keep their system by upgrade.hold, and
those on which a change has failed, with the reason. Unless one has failed, it lists more than 250
Nodes without their content, and does not know which keep their system.`,
		Example: "  loamctl rollout status edge --kubeconfig admin.conf\n" +
			"  loamctl rollout status edge --watch",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			read := func(ctx context.Context, r rollout.Rollout) (turns.Ledger, error) {
				return r.Read(ctx)
			}
			if !watch {
				return o.steer(cmd, args[0], read)
			}

			return o.withPool(cmd, args[0], func(r rollout.Rollout) error {
				print := func(w io.Writer) error {
					report, err := reportAfter(cmd.Context(), r, read)
					if err != nil {
						return err
					}
					return o.print(w, report)
				}
				return watchPage(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), print)
			})
		},
	}
	o.flags(cmd)
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "go on until Ctrl-C")
	return cmd
}

// watchInterval is how often a page is printed again.
const watchInterval = 5 * time.Second

// clearScreen moves to the start of a terminal and erases it (ECMA-48, CUP and
// ED).
const clearScreen = "\x1b[H\x1b[J"

// watchPage prints a page until ctx ends: again and again on a terminal, and when
// it changes elsewhere. An error of the first page ends it. A later one may go away, as
// when the API server restarts: it goes to errs, under the page before.
func watchPage(
	ctx context.Context, out, errs io.Writer, print func(w io.Writer) error,
) error {
	file, isFile := out.(*os.File)
	draws := isFile && term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb"
	before := ""
	problemBefore := ""
	for isFirst := true; ; isFirst = false {
		var text strings.Builder
		err := print(&text)
		page := text.String()
		problem := ""
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && isFirst:
			return err
		case err != nil:
			page = before
			problem = hint.Text(err)
		}

		err = nil
		switch {
		case draws:
			_, err = io.WriteString(out, clearScreen+page)
		case page != before:
			_, err = io.WriteString(out, page)
		}
		if err != nil {
			return err
		}
		if problem != "" && (draws || problem != problemBefore) {
			fmt.Fprintf(errs, "loamctl: %s\n", problem)
		}
		before = page
		problemBefore = problem

		select {
		case <-time.After(watchInterval):
		case <-ctx.Done():
			return nil
		}
	}
}

func rolloutPlanCommand() *cobra.Command {
	var o clusterOptions
	cmd := &cobra.Command{
		Use:               "plan POOL",
		ValidArgsFunction: completePools,
		Short:             "Show what the policy of a pool lets its nodes do now",
		Long: `plan reads the policy from the annotation of the pool's Secret as the nodes do, and
lists the Nodes. It prints how many of them may be away, which are, which go first, are pinned or
keep their system by upgrade.hold, and what keeps nodes from changing: a policy that selects no
Node, Nodes without a zone, too many that are away already. It changes nothing.`,
		Example: "  loamctl rollout plan edge",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.withPool(cmd, args[0], func(r rollout.Rollout) error {
				plan, err := r.Plan(cmd.Context(), time.Now())
				if err != nil {
					return err
				}
				return o.print(cmd.OutOrStdout(), plan)
			})
		},
	}
	o.flags(cmd)
	return cmd
}

func rolloutNowCommand() *cobra.Command {
	var o clusterOptions
	var most, reason string
	var lasts time.Duration
	cmd := &cobra.Command{
		Use:               "now POOL",
		ValidArgsFunction: completePools,
		Short:             "Let more nodes of a pool change at once, for a time",
		Long: `now takes the place of maxUnavailable, chunks and windows of the policy for a time, such
as for a fix that cannot wait. hardMax limits it: without hardMax in the policy, that is
maxUnavailable. The limits of zones and racks stay, of control planes one is away at a time, and a
rollout that is paused or halted stays so. resume ends it before its time.`,
		Example: "  loamctl rollout now edge --max 30% --reason \"a hole in the kubelet\"",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			amount, err := turns.ParseAmount(most)
			switch {
			case most == "":
				return hint.With(usage.Errorf("--max is required"),
					"say how many nodes may be away, such as --max 30%%")
			case err != nil:
				return hint.With(usage.Errorf("--max: %w", err), "%s", hint.Of(err))
			case reason == "":
				return hint.With(usage.Errorf("--reason is required"),
					"say why: the status of the rollout shows it")
			case lasts <= 0 || lasts > maxHurry:
				return hint.With(usage.Errorf("--for %s: want more than 0 and at most %s",
					lasts, maxHurry), "change the policy for good")
			}

			h := turns.Hurry{
				Max:   amount,
				Why:   reason,
				Until: time.Now().Add(lasts).UTC().Truncate(time.Second),
			}
			return o.steer(cmd, args[0],
				func(ctx context.Context, r rollout.Rollout) (turns.Ledger, error) {
					return r.Hurry(ctx, h)
				})
		},
	}
	o.flags(cmd)
	cmd.Flags().StringVar(&most, "max", "", "`NODES` that may be away, or a share such as 30% (required)")
	cmd.Flags().StringVar(&reason, "reason", "", "`TEXT` that the status shows (required)")
	cmd.Flags().DurationVar(&lasts, "for", time.Hour, "`TIME` after which the policy counts again")
	return cmd
}

// maxHurry is how long a policy may be put aside.
const maxHurry = 24 * time.Hour

func rolloutPauseCommand() *cobra.Command {
	var o clusterOptions
	var reason string
	cmd := &cobra.Command{
		Use:               "pause POOL",
		ValidArgsFunction: completePools,
		Short:             "Let no further node of a pool begin",
		Long: `pause lets no node begin until resume, also for another configuration. A node that has
its turn goes on, and a change that restarts nothing does not wait. The reason takes the place of
that of an earlier pause, which is printed on standard error.`,
		Example: "  loamctl rollout pause edge --reason \"the weekend\"",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if reason == "" {
				return hint.With(usage.Errorf("--reason is required"),
					"say why: each node that waits shows it")
			}
			before := ""
			err := o.steer(cmd, args[0],
				func(ctx context.Context, r rollout.Rollout) (l turns.Ledger, err error) {
					l, before, err = r.Pause(ctx, reason)
					return l, err
				})
			if before != "" {
				fmt.Fprintf(cmd.ErrOrStderr(), "was paused: %s\n", before)
			}
			return err
		},
	}
	o.flags(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "`TEXT` that each node that waits shows (required)")
	return cmd
}

func rolloutResumeCommand() *cobra.Command {
	var o clusterOptions
	cmd := &cobra.Command{
		Use:               "resume POOL",
		ValidArgsFunction: completePools,
		Short:             "Let the nodes of a pool begin again",
		Long: `resume ends a pause, a halt and a time in which more nodes may change. What was halted in
a pool that is paused takes another resume. The failures before that count no longer, so as many
more nodes may fail as the policy allows. A corrected configuration ends a halt, too. On the nodes
that have failed, nothing is tried once more: see retry.`,
		Example: "  loamctl rollout resume edge",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.steer(cmd, args[0],
				func(ctx context.Context, r rollout.Rollout) (turns.Ledger, error) {
					return r.Resume(ctx)
				})
		},
	}
	o.flags(cmd)
	return cmd
}

func rolloutRetryCommand() *cobra.Command {
	var o clusterOptions
	cmd := &cobra.Command{
		Use:               "retry POOL NODE",
		ValidArgsFunction: completePools,
		Short:             "Let a node try once more what has failed there",
		Long: `retry asks a node to try once more the configuration or the system that has failed there,
as 'loam apply' and 'loam upgrade --again' on the node do. The node takes a turn for it. The failure
counts no longer, so a halt ends if no more nodes have failed than the policy allows. If your
kubeconfig may not read the policy, a halt stays until resume, and so does one that a person has
written. NODE is the Node as status names it. It is asked by its annotation loam.dev/retry, and
takes that away when it has seen it.`,
		Example: "  loamctl rollout retry edge node-17",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			var after turns.Ledger
			halted := ""
			err := o.steer(cmd, args[0],
				func(ctx context.Context, r rollout.Rollout) (l turns.Ledger, err error) {
					after, halted, err = r.Retry(ctx, args[1])
					return after, err
				})
			if err == nil && halted != "" {
				fmt.Fprintf(cmd.ErrOrStderr(), "the rollout stays halted: %s; hint: %s\n", halted,
					rollout.Resumes(args[0], after))
			}
			return err
		},
	}
	o.flags(cmd)
	return cmd
}

func rolloutForgetCommand() *cobra.Command {
	var o clusterOptions
	cmd := &cobra.Command{
		Use:               "forget POOL NODE",
		ValidArgsFunction: completePools,
		Short:             "Take the turn of a machine away that is gone for ever",
		Long: `forget removes the turn of a machine from the ledger, and the mark from its Node. A turn
does not expire, because a machine that died while it changed is away. Forget it only if it is gone,
or changes nothing any more: other nodes may begin at once. NODE is the machine as status names it,
which need not be the name of its Node. A machine without a turn is refused.`,
		Example: "  loamctl rollout forget edge node-17",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.steer(cmd, args[0],
				func(ctx context.Context, r rollout.Rollout) (turns.Ledger, error) {
					return r.Forget(ctx, args[1])
				})
		},
	}
	o.flags(cmd)
	return cmd
}

func rolloutPolicyCommand() *cobra.Command {
	var format string
	var nodes int
	cmd := &cobra.Command{
		Use:               "policy PATH...",
		ValidArgsFunction: completeYAML,
		Short:             "Check policies and show what they allow",
		Long: `policy checks policies as nodes do, without a cluster, and prints how many nodes of a pool
may be away at once. A policy is JSON or YAML, and becomes the annotation rollout.loam.dev/policy
of the Secret with the configuration of the pool.`,
		Example: "  loamctl rollout policy edge.yaml --nodes 250",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if nodes < 1 || nodes > maxPool {
				return hint.With(usage.Errorf("--nodes %d: want 1 to %d", nodes, maxPool),
					"give the size of the pool")
			}
			c := checker{
				format: format,
				check:  func(path string) finding { return checkPolicy(path, nodes) },
				text:   func(v show.Verdict) string { return v.Path + ": " + v.Summary[0] + "\n" },
			}
			return c.run(cmd, args)
		},
	}
	outcome.FormatFlag(cmd, &format, "text")
	cmd.Flags().IntVar(&nodes, "nodes", 100, "`SIZE` of the pool")
	return cmd
}

// maxPool is more nodes than a cluster has: Kubernetes supports 5,000.
const maxPool = 100_000

// checkPolicy checks the policy at path. The summary is what it allows in a pool
// with that many nodes.
func checkPolicy(path string, nodes int) finding {
	text, err := document.ReadFile(path)
	if err != nil {
		return findingOf(path, err)
	}

	p, err := turns.ParsePolicy(path, text)
	if err != nil {
		return findingOf(path, err)
	}
	return findingOf(path, nil, rollout.Describe(p, nodes, time.Now()))
}
